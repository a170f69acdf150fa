"""HTTP/1.1 to servers that are not trusted.

Every wait ends by a deadline; nothing is decoded or followed unasked. `transport`: connections. `tls`: whose
certificates count. `exchange`: one request and its answer, read by h11. `bodies`: reading up to a limit.
`deadlines`: one for many operations. `proxies`: what the environment says. `urls`: addresses that servers
name, checked before use.
"""
