"""Measurements against a peer or a limit, taken in the same run. They are never timed tests."""
