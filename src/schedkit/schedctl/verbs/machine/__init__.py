"""Verbs about what this machine runs."""
