"""An image that a runtime has, verified and by digest: what `pull`, `run` and `switch` begin with."""

from __future__ import annotations

import os
from dataclasses import dataclass

from schedkit.model.kernel.sched_ext import parse_version
from schedkit.model.trust.verified import Admission, AllowedUnsigned, Verified
from schedkit.oci.images.ports import Source
from schedkit.runtimes.port import Images
from schedkit.schedctl.answers.progress import loading, tell
from schedkit.schedctl.source import fetch
from schedkit.schedctl.source.choose import Chosen
from schedkit.schedctl.source.fetch import Fetchable
from schedkit.schedctl.source.trust import Trust


@dataclass(frozen=True, slots=True)
class Ready:
    """An image that the runtime has, and why it may run."""

    found: Fetchable
    image: str  # the runtime's name for it
    admission: Admission
    was_there: bool  # nothing had to be loaded


def prepare(source: Source, chosen: Chosen, trust: Trust | None, runtime: Images) -> Ready:
    """Resolve, verify and load; refused before its first layer is fetched if it is for other machines."""
    tell(f"resolving {chosen.reference}")
    found = fetch.find(source, chosen.reference)
    return pull(runtime, source, found, _admit(source, found, trust))


def _admit(source: Source, found: Fetchable, trust: Trust | None) -> Admission:
    if trust is None:
        return AllowedUnsigned("--allow-unsigned")
    verified = trust.admit(source, found.reference, found.named)
    tell(f"verified: signed by {verified.signer}")
    return verified


def pull(runtime: Images, source: Source, found: Fetchable, admission: Admission) -> Ready:
    """Load the image into the runtime, unless that has it."""
    image = fetch.content(source, found, admission)
    was_there = runtime.has_image(image.reference)
    if not was_there:
        tell(f"loading {image.reference}")
        runtime.load(image, loading)
    return Ready(found, image.reference, admission, was_there)


def warnings(ready: Ready, trust: Trust | None) -> list[str]:
    """What a user should know about an image that may be run all the same."""
    is_signed = isinstance(ready.admission, Verified)
    unsigned = [] if is_signed else [f"it was not verified who signed {ready.found.reference}"]
    wanted, ours = parse_version(ready.found.min_kernel), parse_version(os.uname().release)
    old = (
        [f"the image needs kernel {ready.found.min_kernel} or newer; this is {os.uname().release}"]
        if wanted and ours and ours < wanted
        else []
    )
    return [*(trust.warnings if trust else ()), *unsigned, *old]
