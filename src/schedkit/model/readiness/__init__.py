"""Whether a machine can run schedulers, and a certain image: what `schedctl doctor` says.

`facts`: what was observed. `checks`: one question each, none of which assumes that another passed. `table`:
their order and their results. `seccomp`: what a runtime's profile lets through.
"""
