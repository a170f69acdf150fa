"""Who owns which node: a kernel runs one scheduler, so a node has one owner.

Begin with `decision`: one function over everything that is seen. `candidates` are SchedExts and their pools,
`sites` are nodes with what is known of them. `placement` tells which sites a candidate wants, `rank` who goes
first, `contests` finds both for a whole fleet without comparing each with each. `holds` are records that keep
somebody off a site; `ejects` and `quarantines` begin and end them. `handover` is what stands between an old
owner and a new one, `templates` who is open, `claim` whose one site is. `worklist` puts what is to be written
into its order, `words` says why.

Imports go to `deploy` (claim values, overlaps) and `api`. The trade-off: nothing is remembered here. Each
phase is read from labels, pods and reports, so that a crash between any two writes loses nothing; whoever
asks must have taken in the answers to its own writes before.
"""
