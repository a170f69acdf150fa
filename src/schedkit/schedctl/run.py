"""`schedctl run`: bring a scheduler into the kernel, and say so only when the kernel does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from schedkit.kernel import ownership
from schedkit.model.evidence import leftovers
from schedkit.model.kernel import parse_version
from schedkit.model.lifecycle import Action, After, Refused, plan_run
from schedkit.model.trust import Verified
from schedkit.oci.sources import Source
from schedkit.runtimes.port import Runtime
from schedkit.schedctl import fetching, hosts, locking, wiring
from schedkit.schedctl.acting import Stage, problem
from schedkit.schedctl.choosing import Chosen, choose_image
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.errors import attempting
from schedkit.schedctl.fetching import Fetchable
from schedkit.schedctl.logs import forward
from schedkit.schedctl.options import option
from schedkit.schedctl.orders import Order, arguments, specify
from schedkit.schedctl.output import Answer, answering
from schedkit.schedctl.progress import loading, tell
from schedkit.schedctl.results import Result
from schedkit.schedctl.settings import Settings
from schedkit.schedctl.trusting import Trust, read_trust, trust_policy_option


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
class Ready:
    """An image that the runtime has, and who vouches for it."""

    found: Fetchable
    image: str  # the runtime's name for it
    signed: Verified | None  # None: nobody was asked


@click.command()
@click.argument("image", metavar="NAME|IMAGE", shell_complete=complete_images)
@click.argument("args", nargs=-1, metavar="[-- ARGS...]")
@click.option(
    "-a", "--attach", is_flag=True, help="Pass on what it writes until its end; exits with its code."
)
@click.option("--version", "version", metavar="TAG", help="Another version than the catalog's.")
@trust_policy_option
@option("allow_unsigned")
@click.option("--preset", metavar="NAME", help="Flags of the catalog for a purpose; ARGS come after them.")
@click.option("--least-privilege", is_flag=True, help="With the capabilities it needs, and no others.")
@click.option("--wait/--no-wait", default=True, help="Wait until the kernel confirms it, or do not.")
@option("timeout_s")
@click.option("--force", is_flag=True, help="Try although the kernel runs a scheduler already.")
@click.pass_obj
@answering
def command(
    settings: Settings,
    image: str,
    version: str | None,
    trust_policy: str | None,
    *,
    attach: bool,
    wait: bool,
    **wishes: Any,  # noqa: ANN401 - click has checked each of them
) -> Answer:
    """Run a scheduler: resolve, verify, load, start, and wait until the kernel confirms it."""
    order = Order(after=After.FOLLOW if attach else After.WAIT if wait else After.LEAVE, **wishes)
    chosen = choose_image(wiring.catalog(settings), image, version=version)
    arguments(chosen, order)  # what cannot be understood is told before anything is done
    trust = None if order.allow_unsigned else read_trust(trust_policy)
    with ended_in_order():
        return _run(settings, chosen, order, trust)


def _run(settings: Settings, chosen: Chosen, order: Order, trust: Trust | None) -> Answer:
    runtime = wiring.runtime(settings, settings.driver)
    runtimes = {**wiring.runtimes(settings), settings.driver: runtime}
    runtime.version()  # without an answer, and where another scheduler runs, nothing need be fetched
    _plan(settings, order)
    ready = _prepare(settings, chosen, trust, runtime)
    spec = specify(
        chosen,
        order,
        ready.found,
        image=ready.image,
        signed=ready.signed,
        policy=trust.policy_origin if trust else None,
        root=wiring.ROOT,
    )
    stage = Stage(wiring.ROOT, runtimes, settings.driver, tell, spec, order.timeout_s)
    with locking.exclusive(wiring.LOCK, f"run {spec.name}"):
        stage.play(_plan(settings, order))
    if order.after is After.FOLLOW:
        _follow(stage, runtime, spec.name)
    answer = _result(settings, stage, runtime.inspect(spec.name).id, ready)
    return Answer(answer, [_words(answer)], warnings=_warnings(ready, trust))


def _plan(settings: Settings, order: Order) -> tuple[Action, ...]:
    look = hosts.look(wiring.ROOT, wiring.runtimes(settings))
    lingering = leftovers(look.observation.kernel, ownership.gather(wiring.ROOT))
    host = look.host._replace(lingering=lingering)
    plan = plan_run(host, after=order.after, is_forced=order.force)
    if isinstance(plan, Refused):
        raise problem(plan)
    return plan


def _prepare(settings: Settings, chosen: Chosen, trust: Trust | None, runtime: Runtime) -> Ready:
    """Everything that does not touch the kernel."""
    with attempting(f"run {chosen.reference}"), wiring.source(settings) as source:
        tell(f"resolving {chosen.reference}")
        found = fetching.find(source, chosen.reference)
        signed = trust.admit(source, found.reference) if trust else None
        if signed:
            tell(f"verified: signed by {signed.signer}")
        return Ready(found, _load(runtime, source, found), signed)


def _load(runtime: Runtime, source: Source, found: Fetchable) -> str:
    image = fetching.content(source, found)
    if not runtime.has_image(image.reference):
        tell(f"loading {image.reference}")
        runtime.load(image, loading)
    return image.reference


def _follow(stage: Stage, runtime: Runtime, name: str) -> NoReturn:
    """Pass on what it writes; its end, also by Ctrl-C, is ours, and nothing of it is left."""
    try:
        forward(stage.outputs)
        ended = runtime.wait(name)
    except KeyboardInterrupt:
        ended = runtime.stop(name).exit
    finally:
        stage.clear()
    raise SystemExit(ended.code if ended else 1)


def _result(settings: Settings, stage: Stage, container_id: str, ready: Ready) -> SchedulerRun:
    kernel = stage.attached.kernel if stage.attached else None
    return SchedulerRun(
        name=stage.spec.name if stage.spec else "",
        id=container_id,
        driver=settings.driver,
        image=str(ready.found.reference),
        digest=str(ready.found.reference.digest),
        signer=ready.signed.signer if ready.signed else None,
        confirmed=kernel is not None,
        ops=kernel.ops if kernel else None,
        enable_seq=kernel.enable_seq if kernel else None,
    )


def _words(done: SchedulerRun) -> str:
    if not done.confirmed:
        return f"started {done.name}; `schedctl status` says whether the kernel runs it"
    return f"the kernel runs {done.ops}, of container {done.name}"


def _warnings(ready: Ready, trust: Trust | None) -> list[str]:
    unsigned = [] if ready.signed else [f"nobody was asked who signed {ready.found.reference}"]
    wanted, ours = parse_version(ready.found.min_kernel), parse_version(os.uname().release)
    old = (
        [f"the image asks for a kernel {ready.found.min_kernel} or newer; this is {os.uname().release}"]
        if wanted and ours and ours < wanted
        else []
    )
    return [*(trust.warnings if trust else ()), *unsigned, *old]


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM end us as Ctrl-C does: what was created is removed first."""

    def end(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - as `signal` calls it
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
