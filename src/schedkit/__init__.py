"""Choose, verify and run sched_ext CPU schedulers, on one machine or on a fleet.

`model` decides, and knows nothing of the outside; `kernel`, `oci`, `runtimes` and `kube` talk to it, `disk`
writes files. `schedctl` is the command for a machine, `sked` the one for a fleet, and `cli` what both have
in common.
"""

__version__ = "0.1.0"
