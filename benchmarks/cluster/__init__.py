"""The operator measured on a real control plane, beside the API server's own limits and a peer in Go.

`python -m benchmarks.cluster` runs all of it and prints targets with what was reached, as ratios.
"""
