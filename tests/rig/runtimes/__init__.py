"""Podman and containerd with storage of their own, and images made for them."""
