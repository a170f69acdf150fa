"""A demo as a person sees it: what is done in the words of kubectl, and what follows as it follows."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from rig.base import polling
from rig.base.progress import say
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator.manager import ROOT, SchedExts


def tell(*lines: str) -> None:
    """Words of the one who shows it."""
    print("", *(f"# {line}" for line in lines), sep="\n", flush=True)


def kubectl(cluster: ControlPlane, *arguments: str) -> None:
    """As a person would type it, and see it."""
    print(f"$ kubectl {shlex.join(arguments)}", flush=True)
    print(cluster.kubectl(*arguments, cwd=ROOT).stdout.rstrip(), flush=True)


def follow(
    schedexts: SchedExts, name: str, kind: str, is_reached: Callable[[JsonObject], bool], *, timeout_s: float
) -> JsonObject:
    """Print what a condition says whenever that changes, until it is so; the condition then."""
    began, said = time.monotonic(), ""

    def probe() -> JsonObject | None:
        nonlocal said
        found = schedexts.condition(kind, name)
        words = "{status:8} {reason}: {message}".format(**found) if found else said
        if words != said:
            print(f"{time.monotonic() - began:4.0f} s  {words}", flush=True)
            said = words
        return found if found and is_reached(found) else None

    return polling.until(probe, f"{kind} of {name} is as awaited", timeout_s=timeout_s)


def answers(schedexts: SchedExts, name: str) -> str:
    """The conditions as a table."""
    conditions = schedexts.status(name)["conditions"]
    return "\n".join("{type:12} {status:8} {reason:16} {message}".format(**each) for each in conditions)


def stay_or_stop(invitation: str) -> None:
    """With somebody at a terminal, leave all as it is until Ctrl-C."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say("stopping")
        return
    print(invitation, flush=True)
    with suppress(KeyboardInterrupt):
        signal.pause()


def look_around(cluster: ControlPlane, *commands: str) -> str:
    """What to type in another shell."""
    typed = "".join(f"    {command}\n" for command in commands)
    return f"""
It is yours until Ctrl-C. In another shell:

    export KUBECONFIG={cluster.kubeconfig}
    alias kubectl={cluster.programs / "kubectl"}
{typed}"""
