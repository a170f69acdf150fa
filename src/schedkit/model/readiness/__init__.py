"""Whether a machine, and an image on it, are ready: facts, checks, and the table of both."""
