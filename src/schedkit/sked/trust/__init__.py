"""What may run: the administrator's rules, and the verifier in a process of its own."""
