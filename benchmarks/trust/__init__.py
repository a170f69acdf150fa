"""Verification measured beside `cosign verify`: the same image, the same registry, the same trusted root.

`python -m benchmarks.trust` runs all of it and prints targets with what was reached, as ratios.
"""
