"""Trust on disk: policies, trusted roots, kept verdicts."""
