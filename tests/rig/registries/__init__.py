"""Real registries, hostile ones, token servers, and signed images in them."""
