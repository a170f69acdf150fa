"""What a kernel says about itself, as values.

`sched_ext`: what it runs now. `log`: how schedulers ended, in its own words. `btf` and `kfuncs`: which
functions it offers, and which a scheduler's BPF objects need. `capabilities`: their names;
`least_privilege`: those that a scheduler gets. Nothing here imports another room; what reads the real files
is in `schedkit.kernel`.
"""
