"""Kubernetes objects as values: only the fields that we read or write.

`schedext`: the resource itself; the CRD is generated from it by `schema`. `schedextnode`: what agents write
about their node, `reports`: the part of it that the manager reads. `daemonset`: what `deploy.render`
writes. `pods`, `nodes`: what we only read. `pod_fields`: what a SchedExt passes on to its pods.
`quantities`: amounts as the API server reads them. `conditions`: types, reasons and how to word them;
reasons are an interface. A field that is not here is left alone in the cluster.
"""
