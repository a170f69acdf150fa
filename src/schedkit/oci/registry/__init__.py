"""One registry: reading, writing, logging in, its mirrors."""
