"""Verbs about what this machine runs.

`launch`: what `run` and `switch` share. `eviction`: the flag that `switch` and `reset` share.
`status_schema`: the answer of `status` as programs read it; `status_watch`: `status --watch`.
"""
