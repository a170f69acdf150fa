"""From what pods say and nodes report to a SchedExt's status and events.

`node_checks`: the state of one node by its pod. `sights`: what is seen of the node beside the pod.
`kernel_table`: what its kernel is proved to run. `fleet`: all nodes, counted. `condition_checks`: the answer
to each condition. `status` puts it together, `plan` says what to write. Everything is computed anew each
time; only dates are kept.

For people who ask: `overview` of SchedExts, `explanation` of a node, `stopping`: who still runs it.
"""
