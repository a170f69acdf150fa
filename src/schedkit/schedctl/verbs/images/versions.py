"""`schedctl versions`: the tags of a scheduler's repository."""

from __future__ import annotations

import click

from schedkit.model.images.tags import is_evidence, sort_versions
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.choose import choose_image
from schedkit.schedctl.wiring import catalogs, registries


class Versions(Result, frozen=True, kw_only=True):
    """The tags of a repository, oldest version first; those that are no version come last."""

    repository: str
    versions: tuple[str, ...]


@click.command()
@click.argument("image", metavar="NAME|IMAGE", shell_complete=complete_images)
@click.option("--all", "everything", is_flag=True, help="Also list tags that hold signatures.")
@click.pass_obj
@answering
def command(settings: Settings, image: str, *, everything: bool) -> Answer:
    """List the versions of a scheduler, the newest last."""
    repository = choose_image(catalogs.catalog(settings), image).reference.repository
    with attempting(f"list the versions of {repository}"), registries.source(settings) as source:
        tags = source.tags(repository)
    shown = tuple(sort_versions(tag for tag in tags if everything or not is_evidence(tag)))
    return Answer(Versions(repository=str(repository), versions=shown), shown)
