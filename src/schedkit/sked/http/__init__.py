"""What the manager serves: probes to all, and metrics to those whom the API server lets read them.

`serving`: the servers. `probes`, `metrics`: what they answer. `authorization`: who may. `certificates`,
`selfsigned`: by which certificate.
"""
