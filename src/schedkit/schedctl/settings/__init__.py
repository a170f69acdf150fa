"""Flags, variables and files: one table of settings."""
