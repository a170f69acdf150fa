"""From what pods say and nodes report to a SchedExt's status and events.

`pod_checks`: the state of one node by its pod. `sights`: what is seen of the node beside the pod.
`believed_reports`: all that is known of a node, and which reports count. `kernel_table`: what the node's
kernel is proved to run, by the first of `kernel_checks` that speaks. `fleet`: all nodes, counted.
`accepted_checks`: the answer that follows from the spec, `deployed_checks`: those that follow from pods,
`ready_checks`: the one that kernels must prove. `status` puts it together, `plan` says what to write.
Everything is computed anew each time; only dates are kept.

For people who ask: `overview` of SchedExts, `explanation` of a node, `stopping`: who still runs it.
"""
