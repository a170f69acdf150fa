"""From what a user asked for to the container that does it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from schedkit.kernel import machine
from schedkit.model.host import containers
from schedkit.model.host.run_stop_plans import After
from schedkit.model.host.time_limits import GRACE_S, TIMEOUT_S
from schedkit.model.images.configs import ImageConfig
from schedkit.model.images.references import Reference
from schedkit.model.kernel.least_privilege import least_privilege
from schedkit.model.trust.verified import Admission, signer_of
from schedkit.runtimes.specs import LeastPrivilege, Mount, Privileged, Spec
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.source.choose import Chosen, needs_tracing
from schedkit.schedctl.source.fetch import Fetchable

_SOCKETS = "var/run/scx"
_NO_TRACING = (
    "{} reads /sys/kernel/tracing, but nothing is mounted there: if the scheduler fails, "
    "run `mount -t tracefs tracefs /sys/kernel/tracing`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a user asked for."""

    args: tuple[str, ...] = ()
    preset: str | None = None
    least_privilege: bool = False
    allow_unsigned: bool = False
    force: bool = False
    after: After = After.WAIT
    timeout_s: float = TIMEOUT_S
    grace_s: float = GRACE_S  # for what is stopped: the old one, or one that failed


def arguments(chosen: Chosen, order: Order) -> tuple[str, ...]:
    """The flags of the preset, then the user's own."""
    if order.preset is None:
        return order.args
    presets: dict[str, tuple[str, ...]] = {}
    presets.update(chosen.listed.entry.presets.items() if chosen.listed else ())
    if order.preset not in presets:
        known = f"its presets are {', '.join(presets)}" if presets else "the catalog lists no presets for it"
        raise Problem(
            f"{chosen.reference} has no preset {order.preset!r}",
            why=known,
            remedy="write its flags after `--`, or leave --preset out",
        )
    return (*presets[order.preset], *order.args)


def name_of(chosen: Chosen) -> str:
    """What the container is called: as in the catalog, else as the end of the repository."""
    return chosen.listed.name if chosen.listed else chosen.reference.repository.path.rpartition("/")[2]


def specify(
    chosen: Chosen,
    order: Order,
    found: Fetchable,
    *,
    image: str,
    admission: Admission,
    policy: str | None,
    root: Path,
) -> Spec:
    """The container; `image` is what the runtime loaded."""
    return Spec(
        name=name_of(chosen),
        image=image,
        admission=admission,
        args=arguments(chosen, order),
        labels=describe(chosen, order, found.reference, signer_of(admission), policy),
        privileges=privileges(chosen) if order.least_privilege else Privileged(),
        mounts=mounts(root, os.uname().release, tracing=needs_tracing(chosen, found.config)),
    )


def describe(
    chosen: Chosen, order: Order, found: Reference, signer: str | None, policy: str | None
) -> dict[str, str]:
    """All that somebody who finds the container may ask; what is not known is absent."""
    options = {
        # a catalog may mean something else by the same preset tomorrow, and need other capabilities
        "args": arguments(chosen, order),
        "preset": order.preset,
        "leastPrivilege": order.least_privilege,
    }
    # only then: what was made before there was such a word is not another container because of it
    if order.least_privilege:
        options["capabilities"] = privileges(chosen).capabilities
    known = {
        containers.CATALOG_NAME_LABEL: chosen.listed.name if chosen.listed else None,
        containers.IMAGE_LABEL: str(chosen.reference),
        containers.DIGEST_LABEL: str(found.digest),
        containers.SIGNER_LABEL: signer,
        containers.POLICY_LABEL: policy,
        containers.OPTIONS_LABEL: json.dumps(options),
    }
    return {name: value for name, value in known.items() if value is not None}


def privileges(chosen: Chosen) -> LeastPrivilege:
    """What every scheduler needs, and what this one needs beside by the catalog."""
    needs = chosen.listed.entry.needs if chosen.listed else None
    return LeastPrivilege(least_privilege((needs.capabilities if needs else None) or ()))


def warnings(chosen: Chosen, order: Order, config: ImageConfig, root: Path) -> list[str]:
    """What may be why the scheduler fails: it is told before that."""
    lacks = needs_tracing(chosen, config) and not machine.shows_tracing(root)
    return [*_unknown_capabilities(chosen, order), *([_NO_TRACING.format(name_of(chosen))] if lacks else [])]


def _unknown_capabilities(chosen: Chosen, order: Order) -> list[str]:
    """For who gives a scheduler only the capabilities that the catalog lists."""
    needs = chosen.listed.entry.needs if chosen.listed else None
    if not order.least_privilege or (needs and needs.capabilities is not None):
        return []
    given = " and ".join(privileges(chosen).capabilities)
    return [f"the capabilities that {name_of(chosen)} needs are not known: {given} may be too few"]


def sockets_folder(root: Path) -> Path:
    """Where schedulers offer their statistics; it may have to be made before a container finds it."""
    return (root / _SOCKETS).resolve()


def mounts(root: Path, release: str, *, tracing: bool) -> tuple[Mount, ...]:
    """The folder of sockets, and of the machine what schedulers read and containers do not show.

    What the kernel can trace only for a scheduler that needs it: it tells about the whole machine.
    """
    shared = Mount(str(sockets_folder(root)), f"/{_SOCKETS}")
    return (shared, *_config(root, release), *(_tracing(root) if tracing else ()))


def _config(root: Path, release: str) -> tuple[Mount, ...]:
    """The kernel's config where libbpf looks, unless it is seen there anyway."""
    config = machine.find_config(root, release)
    if config is None or config.path == str(root / "proc/config.gz"):
        return ()
    return (Mount(config.path, f"/boot/config-{release}", read_only=True),)


def _tracing(root: Path) -> tuple[Mount, ...]:
    """Where the kernel lists what can be traced: some schedulers choose their programs by it, or panic."""
    if not machine.shows_tracing(root):
        return ()
    return (Mount(str(root / machine.TRACING), f"/{machine.TRACING}", read_only=True),)
