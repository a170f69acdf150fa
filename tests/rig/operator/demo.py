"""`make demo`: the operator, from an empty cluster to what a node's kernel runs, and what it throws out.

Where a virtual machine can run, the node is one, with a kernel, a kubelet and an agent of its own. Elsewhere
the nodes are fake, and the demo says so; with `CI=true` it fails instead. At a terminal the cluster stays to
play with, until Ctrl-C; without one it ends by itself.
"""

from __future__ import annotations

import os

from rig.base.errors import Unavailable
from rig.base.progress import say
from rig.operator import demo_fakes, demo_node


def show() -> int:
    """Tell the whole story, as real as this machine can."""
    try:
        demo_node.prepare()
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            raise
        say(f"{error}\n[rig] so this demo has fake nodes: their pods run nothing")
        demo_fakes.play()
    else:
        demo_node.play()
    say("everything is stopped")
    return 0
