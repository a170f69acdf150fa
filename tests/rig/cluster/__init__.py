"""A real control plane, real and fake nodes, and faults between a client and its server."""
