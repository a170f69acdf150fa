"""Changing what a machine runs: one lock, one snapshot, one executor."""
