"""Small breakages of `src`, and the runner that sees each of them caught by the test it names.

A promise whose breach no test would notice is not kept for long: `breakages.toml` breaks each once, on
one line, as a careless edit would. Breakages are applied to a copy of the tree, one at a time.
"""
