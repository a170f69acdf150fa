"""Verbs about what this machine runs. `launch`.

What `run` and `switch` share; `status_watch`: `status --watch`.
"""
