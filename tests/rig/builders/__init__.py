"""Values for tests: each fills in what a test is not about."""
