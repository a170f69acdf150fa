"""One machine: whose the attached scheduler is, what that means, and what to do to change it.

All is decided from one look, a `snapshot`, with our `containers` in it, and the labels that they carry.
Whose: `processes` (who holds it, and where that process belongs), `holders` (how that is proved), `owners`
(what it is called, and how it is ended). What it means: `status_words`, whose table `RULES` is all that
`schedctl status` can say.
What to do: `actions` (the vocabulary), `run_stop_plans` and `switch_reset_plans` (or why not), `time_limits`
(how long a change waits), `confirmation` (whether the kernel runs what was started, or it is given up),
`release` (whether it has let go of what was stopped), `switch_gap` (how long it ran its own scheduler in
between), `supervision` (an end, and whether somebody wanted it).

Owners are proved, never guessed from a name: where proof is impossible the answer is `unknown`.
"""
