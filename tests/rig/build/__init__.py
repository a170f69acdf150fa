"""What is fetched and built before tests run: Debian packages, Go programs, schedulers of the catalog.

`inventory` lists every part, so that a machine can be made ready ahead.
"""
