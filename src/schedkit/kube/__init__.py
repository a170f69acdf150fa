"""A small Kubernetes client and controller runtime; it knows resources as values and nothing of ours.

From the wire up: `transport` (requests, deadlines), `client` (verbs, typed), `decoding` and `interning`
(bytes to objects), `store` and `informer` (all objects of a kind, kept current), `queue` and `schedule`
(which key next), `controller` (workers). `direct`: single requests, for whoever asks now and then. `lease`:
one leader; `fence`: what keeps back the writes of one who is it no longer. `events`: for people. `access`:
how the API server is found, and who we are there. `backoff`: when to try again. `resources`, `errors`: values
that all of them share.
"""
