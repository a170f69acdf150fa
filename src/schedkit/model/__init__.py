"""Values and decisions: no I/O, no clock, no logging, no async.

`images`, `kernel`: what images and kernels say, as values. `trust`: who may sign what. One machine: `host`
decides what to do to it, `readiness` whether it can run schedulers at all. A cluster: `api` has the objects,
`deploy` decides about the DaemonSet, `claims` who owns which node, `report` about the status, `node` what an
agent reports of its kernel. `catalog`: schedulers by their short names.

Imports go one way: report → node, claims → deploy → api, trust → images; host, readiness → kernel; catalog →
api, images. The price of purity: whatever a decision needs, somebody has to look up before and hand in.
"""
