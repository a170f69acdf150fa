"""The operator as a process and as an installation, the scenes it is played in, and what users do to it."""
