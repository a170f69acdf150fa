"""Changing what this machine runs.

`lock`: one change at a time. `snapshot`: one look at kernel and containers. `machine`: what a change is made
to, by the `kernel_port` to `this_kernel`. `executor`: what each action of `model.host` does.
`waiting`: until the machine is as it should be. `player`: a whole plan, with all that undoes it.
`container_spec`: the new container. `forced_ends`: of what is in no container. `signals`: what ends a change
from outside. `why_detached`: what to say when a container is not in the kernel.

Nothing is decided here: plans come from `model.host`, and say all that can happen before it does.
"""
