"""What `run` and `switch` share: everything that is ready before the kernel is touched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import click

from schedkit.model.host.actions import Plan, Refused
from schedkit.model.host.run_stop_plans import After
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.switch_reset_plans import free_name
from schedkit.model.trust.verified import signer_of
from schedkit.runtimes.errors import NoSuchContainerError
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.answers.scheduler_output import forward
from schedkit.schedctl.change import container_spec, lock, snapshot
from schedkit.schedctl.change.container_spec import Order, arguments, specify
from schedkit.schedctl.change.executor import Outcome
from schedkit.schedctl.change.machine import Machine, NewContainer
from schedkit.schedctl.change.player import clear, play
from schedkit.schedctl.change.signals import ended_in_order, undisturbed
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.problems.refusals import decided
from schedkit.schedctl.settings.flags import option
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import load
from schedkit.schedctl.source.choose import Chosen, choose_image
from schedkit.schedctl.source.load import Ready, prepare
from schedkit.schedctl.source.trust import Trust, read_trust
from schedkit.schedctl.verbs.image_flags import image_options
from schedkit.schedctl.wiring import catalogs, registries

_NOTICE_S = 5.0  # for a runtime to notice that a program has ended whose output has
_LOCK_PATIENCE_S = 600.0  # a switch may wait for a slow scheduler, and then bring ours back
_FOLLOWING = "run --attach"


class SchedulerRun(Result, frozen=True, kw_only=True):
    """The container, and what the kernel said about it."""

    name: str
    id: str
    driver: str
    image: str
    digest: str
    signer: str | None  # null: it was run unverified
    confirmed: bool  # the kernel runs it, and the owner is this container
    ops: str | None  # null: it was not waited for
    enable_seq: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asked for, understood."""

    chosen: Chosen
    order: Order
    trust: Trust | None  # None: nobody is to be asked who signed it


def launch_options(command: Any) -> Any:  # noqa: ANN401 - click's own type of what it decorates
    """The arguments and flags of every verb that runs a scheduler."""
    options = (
        image_options,
        click.argument("args", nargs=-1, metavar="[-- ARGS...]"),
        click.option(
            "-a",
            "--attach",
            is_flag=True,
            help="Connect input and output to the scheduler until it ends; exits with its exit code.",
        ),
        click.option(
            "--preset", metavar="NAME", help="Use the flags of this preset in the catalog; ARGS follow them."
        ),
        option("least_privilege"),
        click.option(
            "--wait/--no-wait", default=True, help="Whether to wait until the kernel confirms the scheduler."
        ),
        option("timeout_s"),
        option("grace_s"),
    )
    for each in reversed(options):
        command = each(command)
    return command


def understand(
    settings: Settings,
    *,
    image: str,
    version: str | None,
    trust_policy: str | None,
    attach: bool,
    wait: bool,
    **wishes: Any,  # noqa: ANN401 - click has checked each of them
) -> Asked:
    """What cannot be understood is told before anything is done."""
    after = After.FOLLOW if attach else After.WAIT if wait else After.LEAVE
    order = Order(after=after, **wishes)
    chosen = choose_image(catalogs.catalog(settings), image, version=version)
    arguments(chosen, order)
    return Asked(chosen, order, None if order.allow_unsigned else read_trust(trust_policy))


@dataclass(frozen=True, slots=True)
class Launch:
    """A scheduler that only waits for its container."""

    asked: Asked
    driver: str
    runtimes: Mapping[str, Runtime]
    ready: Ready
    spec: Spec

    def look(self) -> Snapshot:
        """The machine as it is now."""
        return snapshot.look(wiring.kernel(), self.runtimes, is_thorough=True)

    def machine(self, name: str) -> Machine:
        """What plans about a container of that name are made to."""
        order = self.asked.order
        stdin = standard_input() if order.after is After.FOLLOW else None
        spec = replace(self.spec, name=name, has_input=stdin is not None)
        new = NewContainer(
            self.driver, spec, order.timeout_s, stdin, (container_spec.sockets_folder(wiring.ROOT),)
        )
        return Machine(wiring.kernel(), self.runtimes, tell, order.grace_s, new)

    @property
    def doubts(self) -> list[str]:
        """What is doubtful about how it is run: it may be why it fails."""
        config = self.ready.found.config
        return container_spec.warnings(self.asked.chosen, self.asked.order, config, wiring.ROOT)

    @property
    def warnings(self) -> list[str]:
        """What a user should know about the image."""
        return load.warnings(self.ready, self.asked.trust)


class Change(NamedTuple):
    """A plan that was played, and what became of it."""

    plan: Plan
    machine: Machine
    outcome: Outcome


def carry_out(launch: Launch, plan: Plan, host: Snapshot, done: Callable[[], None]) -> Change:
    """Play the plan, which was made from that look; what is doubtful is told before it can fail of it."""
    for doubt in launch.doubts:
        tell(f"Warning: {doubt}")
    machine = launch.machine(free_name(launch.spec.name, host))
    return Change(plan, machine, play(plan, machine, done=done))


def standard_input() -> int | None:
    """The descriptor of our input; None: there is none, or to read from the terminal would stop us."""
    try:
        descriptor = sys.stdin.fileno()
        is_ours = not os.isatty(descriptor) or os.tcgetpgrp(descriptor) == os.getpgrp()
    except (AttributeError, OSError):  # it was closed before we began, or is no file
        return None
    return descriptor if is_ours else None


def prepare_launch(
    settings: Settings, asked: Asked, doing: str, is_possible: Callable[[Snapshot], object | Refused]
) -> Launch:
    """Resolve, verify and load; nothing is fetched where the kernel could not take the scheduler anyway."""
    runtime = wiring.runtime(settings, settings.driver)
    runtimes = {**wiring.runtimes(settings), settings.driver: runtime}
    runtime.version()  # without an answer nothing need be fetched either
    decided(is_possible(snapshot.look(wiring.kernel(), runtimes, is_thorough=True)))
    with attempting(f"{doing} {asked.chosen.reference}"), registries.source(settings) as source:
        ready = prepare(source, asked.chosen, asked.trust, runtime)
    spec = specify(
        asked.chosen,
        asked.order,
        ready.found,
        image=ready.image,
        admission=ready.admission,
        policy=asked.trust.policy_origin if asked.trust else None,
        root=wiring.ROOT,
    )
    return Launch(asked, settings.driver, runtimes, ready, spec)


def describe(launch: Launch, outcome: Outcome) -> dict[str, Any]:
    """What became of it, as the fields of a `SchedulerRun`."""
    kernel = outcome.attached.kernel if outcome.attached else None
    made, found, admission = outcome.made, launch.ready.found, launch.ready.admission
    return {
        "name": made.name,
        "id": made.id,
        "driver": launch.driver,
        "image": str(found.reference),
        "digest": str(found.reference.digest),
        "signer": signer_of(admission),
        "confirmed": kernel is not None,
        "ops": kernel.ops if kernel else None,
        "enable_seq": kernel.enable_seq if kernel else None,
    }


def follow(change: Change) -> NoReturn:
    """Pass on what it writes; its end, also by Ctrl-C, is ours, and nothing of it is left."""
    with ended_in_order():
        try:
            ended = _pass_on(change)
        except KeyboardInterrupt:
            ended = _end(change)
        except BaseException:
            if remains := _end(change).remains:
                tell(remains.as_text())
            raise
    if ended.remains:
        raise ended.remains
    raise SystemExit(ended.exit.code if ended.exit else 1)


def _pass_on(change: Change) -> Outcome:
    """Until it has ended for good, and is removed: a failed switch starts again what it had stopped."""
    made, runtime, outputs = change.outcome.made, change.machine.runtime, change.outcome.outputs
    while True:
        forward(outputs)
        ended = change.outcome
        with suppress(NoSuchContainerError):  # whoever stopped it may have removed it, too
            ended = replace(ended, exit=runtime.wait(made.id, timeout_s=_NOTICE_S))
        with lock.exclusive(wiring.LOCK, _FOLLOWING, patience_s=_LOCK_PATIENCE_S):
            found = change.machine.find(made)
            if found is None:
                return ended
            if not found.is_running:
                cleared = clear(change.plan.on_failure, change.machine, ended)
                return replace(cleared, exit=cleared.exit or ended.exit)
        outputs = runtime.logs(made.id, tail=0, follow=True)


def _end(change: Change) -> Outcome:
    with lock.exclusive(wiring.LOCK, _FOLLOWING, tell=tell), undisturbed():
        is_there = change.machine.find(change.outcome.made) is not None
        return clear(change.plan.on_failure, change.machine, change.outcome) if is_there else change.outcome
