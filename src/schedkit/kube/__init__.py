"""A small Kubernetes client and controller runtime; it knows resources as values and nothing of ours."""
