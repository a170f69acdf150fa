"""Verbs about images."""
