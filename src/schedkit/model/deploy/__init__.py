"""From a SchedExt to its DaemonSet: may it run, how it is rendered, what to write.

Begin with `plan`. It asks `admission` whether the image may run and under which name: `rule_checks` are the
administrator's lists, `verified_checks` what signatures say (`verdicts` are the answers, and for how long
each counts, `running_images` what pods run and who vouches for that), `tag_pinning` which image a tag stands
for, also when it moves. `render` makes the DaemonSet, with its claim to nodes; `patch` compares it with the
one in the cluster. `overlaps` and `rivals` tell who else wants the same nodes. `observation` is all of the
input, `unknown_needs` tells what a newer manager made, which is left alone, and `stops` what a human stopped.

The pod template is final: a change of it restarts schedulers on whole fleets.
"""
