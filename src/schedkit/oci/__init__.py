"""Registries and image layouts: resolve, fetch, verify, push and copy.

`http`: connections to servers that are not trusted. `registry`: one registry's API on top of it. `images`:
what can be done with images, wherever they are; `images.ports` are the protocols that registries and layouts
have in common. `sigstore`: the verifier, whose `verify` is the first file to read. `policy`: policies,
trusted roots and verdicts on disk.

Imports go one way: policy → sigstore → images; registry → http, images; all may use `errors`.
"""
