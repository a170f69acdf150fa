"""The real things that tests run against: a control plane, kernels, nodes, registries, runtimes.

Nothing in here is part of the product. Each module obtains its parts into one cache
(`rig.cache`), starts them as processes that cannot outlive their parent (`rig.processes`)
and raises `Unavailable` when this machine cannot run them.
"""
