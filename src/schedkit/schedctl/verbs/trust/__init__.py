"""`schedctl trust`: whom this machine trusts."""

from __future__ import annotations

import click

from schedkit.cli import Verb, VerbGroup

VERBS = {
    "show": Verb(
        "schedkit.schedctl.verbs.trust.show:command", "Show whom this machine trusts, and by which root."
    ),
    "update": Verb("schedkit.schedctl.verbs.trust.update:command", "Fetch the newest Sigstore root."),
}


@click.group(cls=VerbGroup, verbs=VERBS)
def group() -> None:
    """Show whom this machine trusts, or update the trusted root."""
