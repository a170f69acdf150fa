"""From a name to an image that may run: catalog, fetching, trust, needs."""
