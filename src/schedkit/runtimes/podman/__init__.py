"""Podman behind the port, over its socket."""
