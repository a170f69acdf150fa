"""The real things that tests run against: a control plane, kernels, nodes, registries, runtimes.

Nothing in here is part of the product. Each module obtains its parts into one cache (`base.cache`), starts
them as processes that cannot outlive their parent (`base.processes`) and raises `Unavailable` when this
machine cannot run them. `session` runs tests, `build` fetches and builds, `guest` has the virtual machines,
`runtimes` Podman and containerd, `cluster` the control plane and its nodes, `operator` the operator and what
users do to it, `registries` and `signatures` what their names say, `builders` values for tests, and `fuzz`
broken inputs. `python -m rig` is for a person at a terminal.
"""
