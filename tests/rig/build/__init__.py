"""What is fetched and built before tests run: Debian packages, Go programs, schedulers of the catalog.

`inventory` lists every part, so that a machine can be made ready ahead. `recipes` builds schedulers; what a
recipe says is in `recipe_facts`, and what each attempt of `trials` proves in `measurements`: both only
compute, and `tools/catalog.py` makes the catalog with them.
"""
