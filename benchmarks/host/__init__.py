"""`schedctl` measured beside the bare interpreter and beside Podman's own command.

`python -m benchmarks.host` runs all of it and prints targets with what was reached, as ratios.
"""
