"""Virtual machines with Debian's kernels, and what tests know about sched_ext in them without our own code.

`files` and `bpf` are what runs inside: the first process, and the sources of our schedulers.
"""
