"""What the manager serves: probes, and metrics over HTTPS to those who may read them."""
