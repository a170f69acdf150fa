"""`schedctl`, the host command: which scheduler this machine's kernel runs."""
