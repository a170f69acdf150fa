"""Choose, verify and run sched_ext CPU schedulers, on one machine or on a fleet."""

__version__ = "0.1.0"
