"""What the kernel says about sched_ext, and what its files mean."""
