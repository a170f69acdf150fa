"""`sked agent` measured: what it costs a node that does nothing else, and what it costs the API server.

`python -m benchmarks.node` runs all of it and prints targets with what was reached.
"""
