"""Image references, manifests, configurations and tags, as values."""
