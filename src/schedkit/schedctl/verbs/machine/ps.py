"""`schedctl ps`: the containers of schedkit's, also those of the Go schedctl, in every runtime."""

from __future__ import annotations

import click
import msgspec

from schedkit.model.host.containers import CATALOG_NAME_LABEL, DIGEST_LABEL, SIGNER_LABEL, Container
from schedkit.model.host.snapshot import Snapshot
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.change import snapshot
from schedkit.schedctl.problems.elsewhere import no_runtime
from schedkit.schedctl.settings.table import Settings

_SHORT_ID = 12


class ContainerShown(msgspec.Struct, frozen=True, kw_only=True):
    """One container."""

    pid: int | None  # of its first process; null: it does not run
    id: str
    name: str
    driver: str
    state: str  # created, running, exited or unknown
    image: str
    started_at: str | None
    exit_code: int | None  # null: it has not ended
    catalog_name: str | None  # null: it was not named by a catalog, or another program started it
    digest: str | None  # what was verified
    signer: str | None  # null: nobody's signature was asked for


class Processes(Result, frozen=True, kw_only=True):
    """All containers, the oldest of each runtime first."""

    containers: tuple[ContainerShown, ...]


@click.command()
@click.pass_obj
@answering
def command(settings: Settings) -> Answer:
    """List schedkit's containers, in Podman and in containerd."""
    return answer(snapshot.look(wiring.kernel(), wiring.runtimes(settings)))


def answer(look: Snapshot) -> Answer:
    """What was found; those that have ended have no process."""
    if look.containers is None:
        raise no_runtime(wiring.ROOT, look.problems)
    rows = [(str(each.pid or "-"), each.id[:_SHORT_ID], each.name) for each in look.containers]
    shown = Processes(containers=tuple(map(_shown, look.containers)))
    return Answer(shown, [Table(("PID", "ID", "NAME"), rows)], warnings=look.problems)


def _shown(one: Container) -> ContainerShown:
    return ContainerShown(
        pid=one.pid,
        id=one.id,
        name=one.name,
        driver=one.driver,
        state=one.state.value,
        image=one.image,
        started_at=one.started_at.isoformat(timespec="seconds") if one.started_at else None,
        exit_code=one.exit.code if one.exit else None,
        catalog_name=one.labels.get(CATALOG_NAME_LABEL),
        digest=one.labels.get(DIGEST_LABEL),
        signer=one.labels.get(SIGNER_LABEL),
    )
