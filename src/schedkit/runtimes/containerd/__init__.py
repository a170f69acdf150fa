"""containerd behind the port, over its socket."""
