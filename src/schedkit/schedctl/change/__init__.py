"""Changing what this machine runs.

`lock`: one change at a time. `snapshot`: one look at kernel and containers. `executor`: what plans of
`model.host` do, one case for each action. `container_spec` and `labels`: the container it creates. `eject`:
what is in no container. `signals`: what ends a change from outside. `why_detached`: what to say when a
container is not in the kernel. `elsewhere`: runtimes that are not where they were looked for.
"""
