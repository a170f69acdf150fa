"""Whole verifications of images whose signatures are nearly right, most of them right until the last steps.

A signer may do odd things before signing, and a log may take odd entries: that is changed before it is signed
and logged. A forger can change all that was published, and has keys of their own. In every third case the
image is one that nobody signed, with the evidence of another: it must be refused, whatever was changed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from rig.fuzz import der
from rig.fuzz.mutations import Mutator
from rig.registries.distribution import IMAGE_MANIFEST
from rig.signatures.forgeries import (
    CALLED,
    EXPRESSION,
    OWNER,
    PREHASHED,
    PREHASHED_KEY,
    by_expression,
    by_identity,
    by_key,
    by_logged_key,
    by_owner,
)
from rig.signatures.forging import (
    IDENTITY,
    ISSUER,
    OLD_BUNDLE,
    Leaf,
    Made,
    PrivateKey,
    Recipe,
    Shelf,
    Workshop,
)
from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Digest
from schedkit.model.trust.policy import Exactly, Identity, InvalidPattern, NamedFile, Rule, TrustPolicy
from schedkit.model.trust.steps import Refusal
from schedkit.model.trust.verified import Verified
from schedkit.oci.errors import RegistryError
from schedkit.oci.policy.patterns import parse_pattern
from schedkit.oci.sigstore.strict import quiet
from schedkit.oci.sigstore.trusted_root import InvalidRoot, parse_root
from schedkit.oci.sigstore.verify import verify

REFUSALS = (Refusal, RegistryError, InvalidRoot)
_GOOD = (
    Recipe(),
    Recipe(simple=True),
    Recipe(version=f"{OLD_BUNDLE}0.1"),
    Recipe(version=f"{OLD_BUNDLE}0.2"),
    Recipe(entry="v2"),
    Recipe(kind="intoto 0.0.2"),
    Recipe(stamped=True),
    Recipe(simple=True, stamped=True),
    Recipe(index=True),
    Recipe(leaf=CALLED),
    Recipe(leaf=CALLED, simple=True),
    Recipe(key="ed25519"),
    PREHASHED,
    PREHASHED_KEY,
    Recipe(key="p384"),
    Recipe(leaf=None, entry=None),
    Recipe(leaf=None, entry=None, simple=True),
    Recipe(leaf=None, entry=None, key="rsa"),
    Recipe(leaf=None),
)
_UNKNOWN = {"": 0, "unknown": {"a": [1, "x"]}, "é": None, "predicate": {"x": "y"}}


@dataclass(frozen=True)
class Attempt:
    """One verification: what the registry has, what the verifier believes, and what must not happen."""

    shelf: Shelf
    digest: Digest
    root: bytes
    policy: TrustPolicy
    must_be_refused: bool

    def verify(self) -> Verified:
        """Ask; everything but a refusal, or a verdict that is right, is a finding."""
        reference = Made(self.shelf, self.digest, self.digest, b"", b"", b"").reference
        verified = verify(self.shelf, reference, self.policy, parse_root(self.root))
        if self.must_be_refused or verified.digest != self.digest:
            raise AssertionError(f"{verified} was accepted, and nobody signed that")
        return verified


class Bench:
    """Makes attempts; its workshop is a new one now and then, because logs grow."""

    _LONGEST = 64

    def __init__(self) -> None:
        self._made = self._LONGEST

    def attempt(self, random: Random) -> Attempt:
        """An attempt; all choices come from `random`, only keys and serial numbers do not."""
        if self._made >= self._LONGEST:
            self._made, self._workshop = 0, OddWorkshop()
        self._made += 1
        mutator = Mutator(random)
        recipe, made = self._make(mutator)
        if random.random() < 0.33:
            _move(made.shelf, made.digest, random)
            return _attempt(
                made, Digest(made.shelf.named["v1"]), _policy(mutator, recipe, made), must_be_refused=True
            )
        policy = _policy(mutator, recipe, made)
        forged = recipe.signed_with is not None or _is_called_by_stranger(recipe, policy)
        return _attempt(made, made.digest, policy, must_be_refused=forged)

    def _make(self, mutator: Mutator) -> tuple[Recipe, Made]:
        good = mutator.random.choice(_GOOD)
        recipe = _odd(mutator, good)
        self._workshop.mutator = mutator if mutator.random.random() < 0.08 else None
        try:
            return recipe, self._workshop.make(recipe)
        except Exception:  # noqa: BLE001 - so odd that no tool writes it, and nobody can send it
            recipe = replace(good, signature_bytes=mutator.data)
            return recipe, self._workshop.make(recipe)


def _is_called_by_stranger(recipe: Recipe, policy: TrustPolicy) -> bool:
    asked = any(one.owner is not None for one in policy.rule.identities)
    return asked and recipe.leaf is not None and recipe.leaf.owner != OWNER


def _attempt(made: Made, digest: Digest, policy: TrustPolicy, *, must_be_refused: bool) -> Attempt:
    return Attempt(made.shelf, digest, made.root, policy, must_be_refused)


class OddWorkshop(Workshop):
    """A workshop whose authority, for once, signs whatever certificate it is given."""

    mutator: Mutator | None = None

    def certificate(self, leaf: Leaf, key: PrivateKey) -> x509.Certificate:
        good = super().certificate(leaf, key)
        if self.mutator is None:
            return good
        nodes = der.parse(good.public_bytes(Encoding.DER)) or []
        body = der.parse(self.mutator.der(nodes[0].children[0].encoded())) or nodes[0].children[:1]
        signature = self.authority.key.sign(body[0].encoded(), ec.ECDSA(hashes.SHA384()))
        parts = [body[0], nodes[0].children[1], der.Node(0x03, b"\0" + signature)]
        try:
            with quiet():
                return x509.load_der_x509_certificate(der.Node(0x30, children=parts).encoded())
        except ValueError:
            return good


def _odd(mutator: Mutator, recipe: Recipe) -> Recipe:
    """One change or two, of which most let the signature be reached."""
    for _ in range(mutator.random.choice((1, 1, 1, 2))):
        changes = _LATE if mutator.random.random() < 0.8 else _EARLY
        recipe = mutator.random.choice(changes)(mutator, recipe)
    return recipe


Odd = Callable[[Mutator, Recipe], Recipe]


def _signature(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, signature_bytes=mutator.data)


def _other_signer(_mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, signed_with="other")


def _more_in_statement(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, statement=lambda tree: tree.update(_addition(mutator, tree)))


def _more_in_bundle(mutator: Mutator, recipe: Recipe) -> Recipe:
    if recipe.simple:
        return replace(recipe, bundle=lambda tree: tree.update({mutator.text("org.example/x"): "y"}))
    return replace(recipe, bundle=lambda tree: tree.update(_addition(mutator, tree)))


def _addition(mutator: Mutator, tree: dict[str, Any]) -> dict[str, Any]:
    """Fields that nobody knows."""
    found = {name: value for name, value in _UNKNOWN.items() if name not in tree}
    return {name: mutator.value(value) for name, value in json.loads(json.dumps(found)).items()}


def _names(mutator: Mutator, recipe: Recipe) -> Recipe:
    if recipe.leaf is None:
        return recipe
    name, issuer, owner = (_ascii(mutator.plain(text)) for text in (IDENTITY, ISSUER, OWNER))
    odd = (
        replace(recipe.leaf, names=(name or "x",)),
        replace(recipe.leaf, names=(IDENTITY, name or "x")),
        replace(recipe.leaf, issuer_text=issuer),
        replace(recipe.leaf, issuer_der=issuer),
        replace(recipe.leaf, issuer_der=None),
        replace(recipe.leaf, owner=owner),
        replace(recipe.leaf, repository=owner, repository_text=name),
    )
    return replace(recipe, leaf=mutator.random.choice(odd))


def _ascii(text: str) -> str:
    return text.encode("ascii", "ignore").decode()[:3000]


def _times(mutator: Mutator, recipe: Recipe) -> Recipe:
    minutes = mutator.random.choice((-1, 0, 0.5, 9, 10, 11, 1e5))
    odd = (replace(recipe, logged_at=minutes), replace(recipe, stamped_at=minutes))
    return mutator.random.choice(odd)


def _statement(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, statement=mutator.value)


def _payload(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, payload_bytes=mutator.document)


def _body(mutator: Mutator, recipe: Recipe) -> Recipe:
    def change(body: dict[str, Any]) -> None:
        body["spec"] = mutator.value(body["spec"], 1)

    return replace(recipe, body=change)


def _bundle(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, bundle=mutator.value)


def _bytes(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, raw=mutator.data)


def _manifest(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, manifest=mutator.value)


def _root(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(recipe, root=mutator.value)


def _stamp(mutator: Mutator, recipe: Recipe) -> Recipe:
    return replace(
        recipe, stamped=True, stamp=lambda shop, what, at: mutator.der(shop.stamper.stamp(what, at))
    )


_LATE: tuple[Odd, ...] = (_signature, _other_signer, _more_in_statement, _more_in_bundle, _names)
_EARLY: tuple[Odd, ...] = (_times, _statement, _payload, _body, _bundle, _bytes, _manifest, _root, _stamp)


def _policy(mutator: Mutator, recipe: Recipe, made: Made) -> TrustPolicy:
    """Whom the verifier trusts: the signer, mostly."""
    if recipe.leaf is None:
        return by_key(made) if recipe.entry is None else by_logged_key(made)
    if recipe.leaf.repository is not None:
        return by_owner(made)
    choice = mutator.random.random()
    if choice < 0.7:
        return by_identity(made)
    if choice < 0.85:
        return by_expression(made)
    try:
        pattern = parse_pattern(mutator.plain(EXPRESSION))
    except InvalidPattern:
        return by_expression(made)
    return TrustPolicy(Rule(identities=(Identity(Exactly(ISSUER), pattern),)))


def _move(shelf: Shelf, signed: Digest, random: Random) -> None:
    """Another image under the name, and all evidence about the first put to it."""
    image = json.loads(shelf.manifests[signed].data) | {"annotations": {"forged": str(random.random())}}
    media_type = shelf.manifests[signed].descriptor.media_type
    fake = shelf.put_manifest(json.dumps(image).encode(), media_type, "v1")
    also_inside = random.random() < 0.5
    for digest, content in list(shelf.manifests.items()):
        if digest in (signed, fake.digest) or content.descriptor.media_type != IMAGE_MANIFEST:
            continue
        _move_holder(shelf, content, (signed, fake.digest), also_inside=also_inside)


def _move_holder(
    shelf: Shelf, content: Content, digests: tuple[Digest, Digest], *, also_inside: bool
) -> None:
    signed, fake = digests
    data = content.data.replace(signed.encoded.encode(), fake.encoded.encode())
    for name, blob in list(shelf.blobs.items()) if also_inside else ():
        moved = _renamed(blob, signed, fake)
        data = data.replace(name.encode(), shelf.put_blob(moved).encode())
        data = data.replace(b'"size": %d}' % len(blob), b'"size": %d}' % len(moved))
    holder = shelf.put_manifest(data, content.descriptor.media_type, f"{fake.fallback_tag}.sig")
    shelf.referring[fake] = [holder]


def _renamed(blob: bytes, signed: Digest, fake: Digest) -> bytes:
    """The forger writes the new digest over the old one, in an envelope's payload as well."""
    try:
        tree = json.loads(blob)
        payload = base64.b64decode(tree["dsseEnvelope"]["payload"])
    except (ValueError, KeyError, TypeError):
        return blob.replace(signed.encoded.encode(), fake.encoded.encode())
    changed = payload.replace(signed.encoded.encode(), fake.encoded.encode())
    tree["dsseEnvelope"]["payload"] = base64.b64encode(changed).decode()
    return json.dumps(tree).encode()


def to_json(attempt: Attempt) -> bytes:
    """The attempt for a file, so that it can be made again without the keys."""
    shelf = attempt.shelf
    return json.dumps(
        {
            "manifests": [[one.descriptor.media_type, _b64(one.data)] for one in shelf.manifests.values()],
            "blobs": [_b64(one) for one in shelf.blobs.values()],
            "named": shelf.named,
            "referring": {to: [str(one.digest) for one in ones] for to, ones in shelf.referring.items()},
            "digest": attempt.digest,
            "root": _b64(attempt.root),
            "keys": [_b64(key.content) for key in attempt.policy.rule.keys],
            "identities": [_said(one) for one in attempt.policy.rule.identities],
            "require_log": attempt.policy.rule.require_log,
            "must_be_refused": attempt.must_be_refused,
        },
        indent=1,
    ).encode()


def from_json(data: bytes) -> Attempt:
    """The attempt that was kept."""
    kept, shelf = json.loads(data), Shelf()
    descriptors: dict[str, Descriptor] = {}
    for media_type, content in kept["manifests"]:
        descriptor = shelf.put_manifest(base64.b64decode(content), media_type)
        descriptors[descriptor.digest] = descriptor
    for blob in kept["blobs"]:
        shelf.put_blob(base64.b64decode(blob))
    shelf.named = kept["named"]
    shelf.referring = {to: [descriptors[one] for one in ones] for to, ones in kept["referring"].items()}
    rule = Rule(
        tuple(NamedFile("signer.pub", base64.b64decode(key)) for key in kept["keys"]),
        tuple(_identity(*one) for one in kept["identities"]),
        kept["require_log"],
    )
    root = base64.b64decode(kept["root"])
    return Attempt(shelf, Digest(kept["digest"]), root, TrustPolicy(rule), kept["must_be_refused"])


def _said(identity: Identity) -> list[str | None]:
    issuer = identity.issuer.text if isinstance(identity.issuer, Exactly) else identity.issuer.expression
    owner = identity.owner.text if isinstance(identity.owner, Exactly) else None
    if isinstance(identity.subject, Exactly):
        return [issuer, "exactly", identity.subject.text, owner]
    return [issuer, "pattern", identity.subject.expression, owner]


def _identity(issuer: str, kind: str, subject: str, owner: str | None) -> Identity:
    matcher = Exactly(subject) if kind == "exactly" else parse_pattern(subject)
    return Identity(Exactly(issuer), matcher, owner=Exactly(owner) if owner is not None else None)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
