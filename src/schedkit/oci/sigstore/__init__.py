"""The verifier: steps in `verify`, each in its module."""
