"""From what pods say to a SchedExt's status and events.

`node_checks`: the state of one node. `fleet`: all of them, counted. `condition_checks`: the answer to each
condition. `status` puts it together, `plan` says what to write. Everything is computed anew each time; only
dates are kept.
"""
