"""This machine's kernel: sched_ext in sysfs, its log, its types, and who holds the attached scheduler.

Every reader takes the root of the tree it reads (`/` on a machine, a mount of the host in a container, a
folder in a test). What is read becomes a frozen value of `model/`; nothing is decided here.
"""
