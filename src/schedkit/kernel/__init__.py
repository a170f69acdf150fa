"""This machine's kernel: sched_ext in sysfs, its log, its types, and who holds the attached scheduler.

Every reader takes the root of the tree it reads (`/` on a machine, a mount of the host in a container, a
folder in a test). What is read becomes a frozen value of `model/`; nothing is decided here.

What runs: `observation` is one look, `sysfs` what the kernel says of sched_ext, `uevents` its
announcements. Who holds it: `held_objects` by open files, `watching` those of epoll, `structops` by bpf(2);
`processes` over time, `pod_names` on nodes. Its log: `kmsg` for root, `syslog` for containers. `machine`,
`types`: what it offers. `files`, `file_formats`: small texts.
"""
