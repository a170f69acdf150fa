"""`sked`, the cluster command: which schedulers a fleet's kernels run.

`manager` is the operator as a process, put together in `wiring`. `cache` holds what is known of the
cluster, of the `kinds` it reads; `reconcile` brings one SchedExt in line: observe, decide (in `model`),
act, report. `trust`: the administrator's rules and the verifier, each read by a process of its own. `http`:
probes and metrics. `since`: how long something has been so. `permissions`: every call to the API server, of
which the RBAC is generated. `settings`, `flags`, `logs`, `main`: the front door.

Beside it: `agent`, which looks at the kernel of each node, and `plugin`, which is `kubectl sked`. Neither
imports the manager.
"""
