"""What an image needs of a machine: by its labels, its programs, and what the catalog knows about it."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Collection, Iterable
from typing import Final

from schedkit.model.catalog import Needs
from schedkit.model.images.configs import MIN_KERNEL, machine_of, platform_of
from schedkit.model.images.references import Descriptor
from schedkit.model.kernel.kfuncs import required_kfuncs
from schedkit.model.readiness.facts import ImageNeeds
from schedkit.oci.errors import RegistryError
from schedkit.oci.images.inspection import Inspected, inspect
from schedkit.oci.images.layer_programs import programs
from schedkit.oci.images.ports import Source
from schedkit.schedctl.source.choose import Chosen, needs_tracing

_READS_ZSTD: Final = "zst" in tarfile.TarFile.OPEN_METH


def find_needs(source: Source, chosen: Chosen) -> ImageNeeds:
    """What is known; an image that cannot be looked at is a finding, and the catalog speaks alone."""
    try:
        inspected = inspect(source, chosen.reference, platform_of(os.uname().machine))
        if unread := unreadable(inspected.layers):
            return describe(chosen, inspected, unread=unread)
        found = programs(source, chosen.reference.repository, inspected.layers)
        called = frozenset(name for program in found for name in required_kfuncs(program))
    except RegistryError as error:
        return describe(chosen, None, problem=str(error))
    return describe(chosen, inspected, called=called)


def unreadable(layers: Iterable[Descriptor], *, reads_zstd: bool = _READS_ZSTD) -> str:
    """Why this Python cannot look into them, by what they say they are; empty: it can."""
    if reads_zstd or not any(layer.media_type.endswith("zstd") for layer in layers):
        return ""
    return (
        "the image's layers are compressed with zstd, which only Python 3.14 or newer can read, so it is not"
        " known which functions of sched_ext the scheduler calls. `schedctl run` is not affected:"
        " runtimes read zstd themselves"
    )


def describe(
    chosen: Chosen,
    inspected: Inspected | None,
    *,
    called: Collection[str] = (),
    unread: str = "",
    problem: str = "",
) -> ImageNeeds:
    """The image's own word before the catalog's, where both have one."""
    entry = chosen.listed.entry if chosen.listed else None
    needs = (entry.needs if entry else None) or Needs()
    built = [each.architecture for each in inspected.platforms] if inspected else ()
    labelled = inspected.config.labels.get(MIN_KERNEL) if inspected else None
    return ImageNeeds(
        str(chosen.reference),
        min_kernel=labelled or (entry.min_kernel if entry else None) or "",
        architectures=tuple(map(machine_of, built or (entry.architectures if entry else None) or ())),
        options=needs.kernel_options or (),
        reads_config=bool(needs.boot_config),
        reads_tracing=needs_tracing(chosen, inspected.config if inspected else None),
        capabilities=tuple(f"CAP_{each.removeprefix('CAP_')}" for each in needs.capabilities or ()),
        kfuncs=tuple(sorted(called)),
        unread=unread,
        problem=problem,
    )
