"""`schedctl doctor`: whether this machine can run schedulers, and what to do where it cannot."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from schedkit.kernel import machine
from schedkit.model.readiness import seccomp
from schedkit.model.readiness.checks import Outcome
from schedkit.model.readiness.facts import Facts, ImageNeeds, RuntimeFacts
from schedkit.model.readiness.table import Finding, Summary, examine, summarize
from schedkit.runtimes.errors import ContainerRuntimeError, NotPermittedError
from schedkit.runtimes.port import Runtime
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, Block, Fields, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.problems import elsewhere
from schedkit.schedctl.problems.problem import ExitCode
from schedkit.schedctl.settings.table import Settings

# Podman's profile: the machine's own before that of the distribution
_SECCOMP = (Path("etc/containers/seccomp.json"), Path("usr/share/containers/seccomp.json"))
_LARGEST_PROFILE = 1 << 20


class Diagnosis(Result, frozen=True, kw_only=True):
    """What every check found."""

    checks: tuple[Finding, ...]
    summary: Summary


@click.command()
@click.option(
    "--image", metavar="NAME|IMAGE", shell_complete=complete_images, help="Also check what this image needs."
)
@click.option(
    "--kernel-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Check a kernel that is not running, by its config.",
)
@click.option(
    "--btf",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Check a kernel that is not running, by its BTF.",
)
@click.pass_obj
@answering
def command(settings: Settings, image: str | None, kernel_config: Path | None, btf: Path | None) -> Answer:
    """Check whether this machine can run schedulers; exits 1 if it cannot.

    With --kernel-config or --btf, only the kernel of these files is checked, not this machine.
    """
    needs = _needs_of(settings, image) if image is not None else None
    if kernel_config or btf:
        return answer(Facts(machine.describe(config=kernel_config, btf=btf), image=needs))
    return answer(Facts(machine.observe(wiring.ROOT), ask(wiring.ROOT, settings), needs))


def _needs_of(settings: Settings, image: str) -> ImageNeeds:
    from schedkit.schedctl.source.choose import choose_image  # noqa: PLC0415 - registries, only for who asks
    from schedkit.schedctl.source.needs import find_needs  # noqa: PLC0415 - as above
    from schedkit.schedctl.wiring import catalogs, registries  # noqa: PLC0415 - as above

    with registries.source(settings) as source:
        return find_needs(source, choose_image(catalogs.catalog(settings), image))


def ask(root: Path, settings: Settings) -> tuple[RuntimeFacts, ...]:
    """What is known about each runtime, also about one that is not installed."""
    drivers = wiring.drivers(settings)
    return tuple(_facts(root, settings, each, wiring.runtime(settings, each)) for each in drivers)


def _facts(root: Path, settings: Settings, driver: str, runtime: Runtime) -> RuntimeFacts:
    socket = str(wiring.socket_of(settings, driver))
    try:
        version = runtime.version()
    except ContainerRuntimeError as error:
        problem = str(error).removesuffix(f"; {error.hint}")
        return RuntimeFacts(driver, socket, problem=problem, remedy=_remedy(root, driver, error))
    return RuntimeFacts(
        driver, socket, version=version, allows_bpf=_allows_bpf(root) if driver == "podman" else None
    )


def _remedy(root: Path, driver: str, error: ContainerRuntimeError) -> str:
    """What is better than to start it: whoever may not ask it need not, and another may run already."""
    if isinstance(error, NotPermittedError):
        return error.hint
    return elsewhere.advice(root, elsewhere.CLUSTERS, tried=str(error)) if driver == "containerd" else ""


def _allows_bpf(root: Path) -> bool | None:
    for profile in _SECCOMP:
        with suppress(OSError), (root / profile).open("rb") as file:
            return seccomp.allows_bpf(file.read(_LARGEST_PROFILE))
    return None


def answer(facts: Facts) -> Answer:
    """All findings; with one that blocks the exit code is 1."""
    findings = examine(facts)
    summary = summarize(findings)
    code = ExitCode.FAILED if summary.blocking else ExitCode.DONE
    return Answer(Diagnosis(checks=findings, summary=summary), _text(findings, summary), code)


def _text(findings: tuple[Finding, ...], summary: Summary) -> list[Block]:
    rows = [(_mark(each), each.id, each.detail) for each in findings]
    advice = [(each.id, each.remediation) for each in findings if each.status is Outcome.FAIL]
    counts = (
        f"{summary.passed} passed, {summary.blocking} failed, {summary.failed - summary.blocking} warned, "
        f"{summary.skipped} skipped"
    )
    return [Table(("", "CHECK", "FOUND"), rows), counts, *([Fields(advice)] if advice else [])]


def _mark(finding: Finding) -> str:
    if finding.status is Outcome.FAIL:
        return "FAIL" if finding.is_blocking else "warn"
    return "ok" if finding.status is Outcome.PASS else "skip"
