"""`kubectl sked`: what a person asks and orders, with that person's own kubeconfig and rights.

`main`: its verbs. `get`, `explain`, `stop`, `resume`: what they do. `targets`: what the last two are told to
work on, and the annotation that they write. `cluster`: the API server as the caller sees it. `printing`: how
answers and problems are printed, `exit_codes`: how it ends.

It imports nothing that only Linux has, neither the manager nor the agent: it runs on laptops.
"""
