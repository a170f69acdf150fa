"""`schedctl`, the host command: which scheduler this machine's kernel runs.

`main` lists the verbs; each has a module in `verbs`, imported when it is called. `source` gets from a word
to an image that may run, `change` changes the machine, `answers` prints, `settings` are flags, variables
and files, `problems` what users are told, `completions` what shells offer. `wiring` constructs what talks
to the outside, and nobody else does.

Imports go one way: verbs → wiring → change → source → answers → settings → problems. `status` must start
quickly, so that imports stand in functions where most calls do without them.
"""
