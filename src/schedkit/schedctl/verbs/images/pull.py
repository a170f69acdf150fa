"""`schedctl pull`: bring a scheduler's image into the runtime, verified, so that it can be run later."""

from __future__ import annotations

from collections.abc import Sequence

import click

from schedkit.model.trust.verified import signer_of
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.choose import choose_image
from schedkit.schedctl.source.load import prepare, warnings
from schedkit.schedctl.source.trust import read_trust
from schedkit.schedctl.verbs.image_flags import image_options
from schedkit.schedctl.wiring import catalogs, registries


class ImagePulled(Result, frozen=True, kw_only=True):
    """An image that the runtime has now."""

    image: str  # with its digest
    digest: str
    driver: str
    signer: str | None  # null: nobody was asked
    loaded: bool  # false: it was there already


@click.command()
@image_options
@click.pass_obj
@answering
def command(
    settings: Settings, image: str, version: str | None, trust_policy: str | None, *, allow_unsigned: bool
) -> Answer:
    """Pull a scheduler's image: resolve, verify, and load it into the runtime by its digest."""
    chosen = choose_image(catalogs.catalog(settings), image, version=version)
    trust = None if allow_unsigned else read_trust(trust_policy)
    runtime = wiring.runtime(settings, settings.driver)
    runtime.version()  # without an answer nothing need be fetched
    with attempting(f"pull {chosen.reference}"), registries.source(settings) as source:
        ready = prepare(source, chosen, trust, runtime)
    pulled = ImagePulled(
        image=str(ready.found.reference),
        digest=str(ready.found.reference.digest),
        driver=settings.driver,
        signer=signer_of(ready.admission),
        loaded=not ready.was_there,
    )
    return answer(pulled, warnings(ready, trust))


def answer(pulled: ImagePulled, warned: Sequence[str]) -> Answer:
    """What the runtime has."""
    already = "" if pulled.loaded else " already"
    return Answer(pulled, [f"{pulled.driver} has {pulled.image}{already}"], warnings=warned)
