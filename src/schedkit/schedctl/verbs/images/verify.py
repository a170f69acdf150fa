"""`schedctl verify`: who signed an image, if it is somebody who is trusted."""

from __future__ import annotations

import click

from schedkit.model.trust.verified import Verified
from schedkit.schedctl.answers.answer import Answer, Fields, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.choose import choose_image
from schedkit.schedctl.source.trust import Trust, read_trust
from schedkit.schedctl.verbs.image_flags import trust_policy_option
from schedkit.schedctl.wiring import catalogs, registries


class Signature(Result, frozen=True, kw_only=True):
    """Who signed the image, and by whose policy that is enough. An image that is refused has no answer."""

    image: str
    digest: str
    signer: str  # the identity in the certificate, or the file of the key
    issuer: str | None  # who vouched for the identity; null for a key
    signed: str | None  # when; null when nobody who is trusted says so
    mode: str  # keyless or key
    policy: str


@click.command()
@click.argument("image", metavar="NAME|IMAGE", shell_complete=complete_images)
@click.option("--version", "version", metavar="TAG", help="Use this version, not the catalog's.")
@trust_policy_option
@click.pass_obj
@answering
def command(settings: Settings, image: str, version: str | None, trust_policy: str | None) -> Answer:
    """Verify that a trusted signer signed an image; exits 1 if not."""
    reference = choose_image(catalogs.catalog_for(settings, image), image, version=version).reference
    trust = read_trust(trust_policy)
    with attempting(f"trust {reference}"), registries.source(settings) as source:
        verified = trust.verify(source, reference)
    signature = _describe(str(reference), verified, trust)
    return Answer(signature, [_text(signature)], warnings=trust.warnings)


def _describe(image: str, verified: Verified, trust: Trust) -> Signature:
    return Signature(
        image=image,
        digest=verified.digest,
        signer=verified.signer,
        issuer=verified.issuer,
        signed=verified.time.isoformat(timespec="seconds") if verified.time else None,
        mode=verified.mode,
        policy=trust.policy_origin,
    )


def _text(signature: Signature) -> Fields:
    return Fields(
        [
            ("Image", signature.image),
            ("Digest", signature.digest),
            ("Signed by", signature.signer),
            ("Issuer", signature.issuer or "a key of the policy"),
            ("Signed at", signature.signed or "not known"),
            ("Policy", signature.policy),
        ]
    )
