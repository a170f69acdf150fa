"""What an image needs of a machine: by its labels, its programs, and what the catalog knows about it."""

from __future__ import annotations

import os
from collections.abc import Collection

from schedkit.model.bpfobjects import required_kfuncs
from schedkit.model.catalog import Needs
from schedkit.model.facts import ImageNeeds
from schedkit.model.imageconfigs import MIN_KERNEL, machine_of, platform_of
from schedkit.oci.errors import RegistryError
from schedkit.oci.inspection import Inspected, inspect
from schedkit.oci.layerfiles import programs
from schedkit.schedctl import wiring
from schedkit.schedctl.choosing import Chosen, choose_image, needs_tracing
from schedkit.schedctl.settings import Settings


def find_needs(settings: Settings, image: str) -> ImageNeeds:
    """What is known; an image that cannot be looked at is a finding, and the catalog speaks alone."""
    chosen = choose_image(wiring.catalog(settings), image)
    try:
        with wiring.source(settings) as source:
            inspected = inspect(source, chosen.reference, platform_of(os.uname().machine))
            found = programs(source, chosen.reference.repository, inspected.layers)
            called = frozenset(name for program in found for name in required_kfuncs(program))
    except RegistryError as error:
        return describe(chosen, None, problem=str(error))
    return describe(chosen, inspected, called=called)


def describe(
    chosen: Chosen, inspected: Inspected | None, *, called: Collection[str] = (), problem: str = ""
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
        problem=problem,
    )
