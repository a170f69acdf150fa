"""`schedctl status`: what the kernel runs, whose it is, and whether that agrees with our containers.

It is asked often, by people and by programs, and starts quickly: its answer is a plain mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from schedkit.model.host.containers import Container
from schedkit.model.host.owners import Owner, OwnerKind
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.status_words import HostStatus, Status, judge
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, Fields, answering
from schedkit.schedctl.change import snapshot
from schedkit.schedctl.problems.problem import SCHEMA_VERSION, ExitCode
from schedkit.schedctl.settings.table import Settings

if TYPE_CHECKING:
    from schedkit.runtimes.port import Runtime
    from schedkit.schedctl.verbs.machine.status_schema import (
        KernelShown,
        LeftoverShown,
        OwnerShown,
        SchedulerShown,
        StatusShown,
    )


@click.command()
@click.option(
    "-w", "--watch", is_flag=True, help="Continue to watch, and print a line for each change, until Ctrl-C."
)
@click.pass_context
@answering
def command(ctx: click.Context, *, watch: bool) -> Answer:
    """Show which scheduler the kernel runs and who owns it.

    It exits 2 if the kernel's scheduler and schedkit's containers do not match. With --watch it exits 0, and
    -o json prints one object on each line.
    """
    settings: Settings = ctx.obj
    if watch:
        from schedkit.schedctl.verbs.machine import status_watch  # noqa: PLC0415 - most ask once

        status_watch.follow(lambda: look_at(settings), ctx.params["output"])
    return look_at(settings)


def look_at(settings: Settings) -> Answer:
    """The answer to a look at this machine."""
    runtimes = wiring.runtimes(settings)
    look = snapshot.look(wiring.kernel(), runtimes)
    return answer(look, settings.driver, lambda container: _reasons(container, runtimes))


def _reasons(container: Container, runtimes: Mapping[str, Runtime]) -> tuple[str, str]:
    from schedkit.schedctl.change import why_detached  # noqa: PLC0415 - most answers go without

    return why_detached.find(wiring.ROOT, runtimes, container)


def _unexplained(container: Container) -> tuple[str, str]:  # noqa: ARG001 - nothing is known about any
    return "", ""


def answer(
    look: Snapshot, driver: str, explain: Callable[[Container], tuple[str, str]] = _unexplained
) -> Answer:
    """The answer to one look; `driver` is the one to name when no container of ours runs.

    `explain` says, in the words of the kernel and of the scheduler, why a container is not in the kernel.
    """
    verdict = judge(look)
    scheduler = _scheduler(look, verdict.owner)
    shown = describe(look, verdict, scheduler, driver)
    if scheduler and verdict.status is Status.DETACHED:
        _add_words(shown, *explain(scheduler))
    code = ExitCode.DISCREPANCY if verdict.exit_code else ExitCode.DONE
    return Answer(shown, [_text(shown)], code, look.problems)


def _scheduler(look: Snapshot, owner: Owner) -> Container | None:
    owning = [each for each in look.running if each.id == owner.container_id]
    return next(iter(owning or look.running), None)


def describe(look: Snapshot, verdict: HostStatus, scheduler: Container | None, driver: str) -> StatusShown:
    """The whole answer, in the words of the schema."""
    shown: StatusShown = {
        "schema_version": SCHEMA_VERSION,
        "status": verdict.status.value,
        "driver": scheduler.driver if scheduler else driver,
        "kernel": _kernel(look.kernel),
        "message": verdict.words,
        "next": verdict.way_out,
    }
    if scheduler:
        shown["scheduler"] = _shown(scheduler)
    if verdict.owner.kind is not OwnerKind.NONE:
        shown["owner"] = _owner(verdict.owner)
    if verdict.exit_code:
        shown["discrepancy"] = verdict.words
    if left := [_left_over(each) for each in look.ended]:
        shown["leftovers"] = left
    return shown


def _add_words(shown: StatusShown, kernel_words: str, last_words: str) -> None:
    if kernel_words:
        shown["kernel_words"] = kernel_words
    if last_words:
        shown["last_words"] = last_words


def _left_over(one: Container) -> LeftoverShown:
    return {"name": one.name, "container_id": one.id, "driver": one.driver, "state": one.state.value}


def _shown(one: Container) -> SchedulerShown:
    shown: SchedulerShown = {
        "name": one.name,
        "container_id": one.id,
        "image": one.image,
        "pid": one.pid or 0,
        "started_at": one.started_at.isoformat(timespec="seconds") if one.started_at else None,
    }
    if one.image_id:
        shown["image_id"] = one.image_id
    return shown


def _kernel(kernel: KernelState) -> KernelShown:
    return {
        "supported": kernel.state is not State.ABSENT,
        "enabled": kernel.state is State.ENABLED,
        "ops": kernel.ops or "",
        "state": kernel.state.value,
        "enable_seq": kernel.enable_seq,
        "switch_all": kernel.switch_all,
        "nr_rejected": kernel.nr_rejected,
        "hotplug_seq": kernel.hotplug_seq,
    }


def _owner(owner: Owner) -> OwnerShown:
    shown: OwnerShown = {"kind": owner.kind.value}
    if owner.pid:
        shown["pid"] = owner.pid
    if owner.command:
        shown["command"] = owner.command
    if owner.container_id:
        shown["container_id"] = owner.container_id
    if owner.pod_uid:
        shown["pod_uid"] = owner.pod_uid
    if owner.pod:
        shown["pod_namespace"], _, shown["pod_name"] = owner.pod.partition("/")
    if owner.unit:
        shown["unit"] = owner.unit
    if owner.reason:
        shown["reason"] = owner.reason
    return shown


def _text(shown: StatusShown) -> Fields:
    pairs = [("Status", shown["status"]), ("Kernel", shown["kernel"]["state"])]
    if shown["kernel"]["ops"]:
        pairs.append(("Scheduler", shown["kernel"]["ops"]))
    if scheduler := shown.get("scheduler"):
        pairs += [
            ("Container", f"{scheduler['name']} ({scheduler['container_id'][:12]}, {shown['driver']})"),
            ("Image", scheduler["image"]),
            ("Since", scheduler["started_at"] or "not known"),
        ]
    pairs.append(("Meaning", shown["message"]))
    if words := shown.get("kernel_words"):
        pairs.append(("Kernel says", words))
    if words := shown.get("last_words"):
        pairs.append(("Last output", words))
    pairs += [("Left over", _words_about(each)) for each in shown.get("leftovers", ())]
    return Fields([*pairs, ("Next", shown["next"])])


def _words_about(left: LeftoverShown) -> str:
    was = {"created": "was prepared and never started", "exited": "has ended"}.get(
        left["state"], "does not run"
    )
    name = left["name"] or left["container_id"][:12]
    return (
        f"container {name} {was}; the next `run` or `switch` removes it, and so does `schedctl stop {name}`"
    )
