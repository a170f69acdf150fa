"""An image that a runtime has, verified and by digest: what `pull`, `run` and `switch` begin with."""

from __future__ import annotations

import os
from dataclasses import dataclass

from schedkit.model.kernel.sched_ext import parse_version
from schedkit.model.trust.verified import Verified
from schedkit.oci.images.ports import Source
from schedkit.runtimes.port import Images
from schedkit.schedctl.answers.progress import loading, tell
from schedkit.schedctl.source import fetch
from schedkit.schedctl.source.choose import Chosen
from schedkit.schedctl.source.fetch import Fetchable
from schedkit.schedctl.source.trust import Trust


@dataclass(frozen=True, slots=True)
class Ready:
    """An image that the runtime has, and who vouches for it."""

    found: Fetchable
    image: str  # the runtime's name for it
    signed: Verified | None  # None: nobody was asked
    was_there: bool  # nothing had to be loaded


def prepare(source: Source, chosen: Chosen, trust: Trust | None, runtime: Images) -> Ready:
    """Resolve, verify and load; refused before its first layer is fetched if it is for other machines."""
    tell(f"resolving {chosen.reference}")
    found = fetch.find(source, chosen.reference)
    signed = trust.admit(source, found.reference) if trust else None
    if signed:
        tell(f"verified: signed by {signed.signer}")
    return _load(runtime, source, found, signed)


def _load(runtime: Images, source: Source, found: Fetchable, signed: Verified | None) -> Ready:
    image = fetch.content(source, found)
    was_there = runtime.has_image(image.reference)
    if not was_there:
        tell(f"loading {image.reference}")
        runtime.load(image, loading)
    return Ready(found, image.reference, signed, was_there)


def warnings(ready: Ready, trust: Trust | None) -> list[str]:
    """What a user should know about an image that may be run all the same."""
    unsigned = [] if ready.signed else [f"nobody was asked who signed {ready.found.reference}"]
    wanted, ours = parse_version(ready.found.min_kernel), parse_version(os.uname().release)
    old = (
        [f"the image asks for a kernel {ready.found.min_kernel} or newer; this is {os.uname().release}"]
        if wanted and ours and ours < wanted
        else []
    )
    return [*(trust.warnings if trust else ()), *unsigned, *old]
