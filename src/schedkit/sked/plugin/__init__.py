"""`kubectl sked`: what a person asks and orders, with that person's own kubeconfig and rights.

`main`: its verbs. `stop`: stop and resume. `get`, `explain`: what runs, and why. `cluster`: the API server as
the caller sees it. `answers`: how answers and problems are printed.

It imports nothing that only Linux has, neither the manager nor the agent: it runs on laptops.
"""
