"""Every parser of what strangers write: genuine inputs for it, and the only ways in which it may refuse.

A target takes bytes, so that an input that was found can be kept in a file and tried again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

import schedkit
from rig.fuzz.mutations import Mutator
from rig.signatures.forgeries import OURS, PREHASHED
from rig.signatures.forging import OLD_BUNDLE, Made, Recipe, Workshop
from schedkit.model.catalog import InvalidCatalog, parse_catalog
from schedkit.model.images import configs, manifests, strictjson
from schedkit.model.images.manifests import NoSuchPlatform
from schedkit.model.images.references import (
    Digest,
    InvalidReference,
    Platform,
    parse_reference,
    parse_repository,
)
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.model.trust.policy import InvalidPattern, InvalidPolicy, parse_policy
from schedkit.model.trust.steps import Refusal
from schedkit.oci.errors import Refused, Unauthorized
from schedkit.oci.http import bodies
from schedkit.oci.http.exchange import Broken, Exchange, question
from schedkit.oci.images import digests
from schedkit.oci.policy import files, verdict_cache
from schedkit.oci.policy.patterns import parse_pattern
from schedkit.oci.registry import challenges, client, login_helpers
from schedkit.oci.registry import logins as credentials
from schedkit.oci.registry.host import Answer, Ask
from schedkit.oci.sigstore import (
    bundles,
    certificates,
    cosign2,
    keys,
    log_entries,
    log_inclusion,
    statements,
    timestamps,
    trusted_root,
)
from schedkit.oci.sigstore.keys import UnusableKey
from schedkit.oci.sigstore.statements import SignedStatement
from schedkit.oci.sigstore.strict import quiet
from schedkit.oci.sigstore.trusted_root import InvalidRoot, TrustedRoot

_HOST = "registry.rig.test"
_REPOSITORY = parse_repository(f"{_HOST}/rig/image")
_LINUX = Platform("linux", "amd64")
_MANIFEST = manifests.LARGEST_MANIFEST
Change = Callable[[Mutator, bytes], bytes]


@dataclass(frozen=True)
class Target:
    """One parser."""

    name: str
    weight: float
    """How many of all inputs it gets, beside others."""
    genuine: Sequence[bytes]
    parse: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    change: Change = Mutator.data
    largest: int = 2 << 20
    """No more bytes than this ever get as far as the parser: whoever reads them stops there."""

    def mutated(self, mutator: Mutator) -> bytes:
        """A genuine input with a change or two; without one, where it would be too large."""
        good = mutator.random.choice(self.genuine)
        changed = self.change(mutator, good)
        return changed if len(changed) <= self.largest else good


def _text(mutator: Mutator, data: bytes) -> bytes:
    """For inputs that are lines of text."""
    text = data.decode()
    for _ in range(mutator.random.choice((1, 1, 2, 3))):
        text = mutator.plain(text)
    return text.encode("utf-8", "surrogatepass")


def _tree(mutator: Mutator, data: bytes) -> bytes:
    """For inputs that are JSON only so that they can be kept: as JSON they stay right."""
    tree = json.loads(data)
    for _ in range(mutator.random.choice((1, 1, 2, 3))):
        tree = mutator.value(tree)
    try:
        return json.dumps(tree).encode()
    except RecursionError:  # nested deep, and then again
        return data


def _both(mutator: Mutator, data: bytes) -> bytes:
    """For policies, which are YAML: as lines, or as the JSON that is YAML, too."""
    if data[:1] == b"{" and mutator.random.random() < 0.7:
        return _tree(mutator, data)
    return _text(mutator, data)


def _within(*path: str | int) -> Change:
    """For what lies deep in a document: only that is changed."""

    def change(mutator: Mutator, data: bytes) -> bytes:
        tree = json.loads(data)
        holder = tree
        for step in path[:-1]:
            holder = holder[step]
        for _ in range(mutator.random.choice((1, 1, 2))):
            holder[path[-1]] = mutator.value(holder[path[-1]], 1)
        return mutator.written(tree)

    return change


@dataclass(frozen=True)
class Corpus:
    """Genuine artifacts of every kind, as bytes, and the root by which they are judged."""

    bundles: list[bytes]
    layers: list[bytes]
    """As one document each, since a layer is its bytes and its annotations."""
    manifests: list[bytes]
    indexes: list[bytes]
    certificate: bytes
    key: bytes
    root_document: bytes

    @cached_property
    def root(self) -> TrustedRoot:
        return trusted_root.parse_root(self.root_document)

    @cached_property
    def plain(self) -> SignedStatement:
        return bundles.parse_bundle(self.bundles[0], "here")

    @cached_property
    def stamped(self) -> SignedStatement:
        return bundles.parse_bundle(self.bundles[1], "here")

    def to_json(self) -> dict[str, Any]:
        """For a file, beside an input that was found with it."""
        return {
            name: _b64(value) if isinstance(value, bytes) else [_b64(one) for one in value]
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Corpus:
        decoded: dict[str, Any] = {
            name: base64.b64decode(value)
            if isinstance(value, str)
            else [base64.b64decode(one) for one in value]
            for name, value in kept.items()
        }
        return cls(**decoded)


def make_corpus() -> Corpus:
    """With keys that nobody else has."""
    workshop, leaf = Workshop(), OURS
    bundled = [workshop.make(recipe) for recipe in _BUNDLED]
    layered = [workshop.make(recipe) for recipe in _LAYERED]
    indexed = workshop.make(Recipe(index=True))
    shelves = [made.shelf.manifests for made in (*bundled[:2], *layered)]
    listed = manifests.render_index(one.descriptor for shelf in shelves for one in shelf.values())
    return Corpus(
        [made.document for made in bundled],
        [_layer(made) for made in layered],
        [one.data for shelf in shelves for one in shelf.values()],
        [indexed.shelf.manifests[indexed.digest].data, listed, _PLATFORMS],
        workshop.certificate(leaf, workshop.key("p256")).public_bytes(Encoding.DER),
        indexed.public_key,
        indexed.root,
    )


_BUNDLED = (
    Recipe(),
    Recipe(stamped=True),
    Recipe(version=f"{OLD_BUNDLE}0.1"),
    Recipe(version=f"{OLD_BUNDLE}0.2"),
    Recipe(entry="v2"),
    Recipe(kind="intoto 0.0.2"),
    PREHASHED,
    Recipe(leaf=None),
)
_LAYERED = (
    Recipe(simple=True),
    Recipe(simple=True, stamped=True),
    Recipe(simple=True, leaf=None, entry=None, key="rsa"),
)


def _layer(made: Made) -> bytes:
    (layer,) = json.loads(made.shelf.manifests[made.signature].data)["layers"]
    return json.dumps({"payload": _b64(made.document), "annotations": layer["annotations"]}).encode()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def targets(corpus: Corpus, folder: Path) -> tuple[Target, ...]:
    """All of them; the folder is for those that read files."""
    (folder / "team.pub").write_bytes(corpus.key)
    (folder / "root.json").write_bytes(corpus.root_document)
    return (*_documents(corpus), *_evidence(corpus), *_beliefs(corpus, folder), *_conversation(folder))


def _documents(corpus: Corpus) -> tuple[Target, ...]:
    invalid = (InvalidDocument,)
    return (
        Target("manifests", 12, corpus.manifests, _manifest, (Refused,), largest=_MANIFEST),
        Target("indexes", 8, corpus.indexes, _index, (Refused, NoSuchPlatform), largest=_MANIFEST),
        Target("image configs", 10, _CONFIGS, lambda data: configs.parse_config(data).platform, invalid),
        Target("catalogs", 5, _catalogs(), parse_catalog, (InvalidCatalog,)),
        Target("references", 14, _REFERENCES, _reference, (InvalidReference,), _text),
    )


def _manifest(data: bytes) -> object:
    served_as = manifests.IMAGE_INDEX if b'"manifests"' in data else None
    return digests.read_manifest(data, served_as=served_as, expected=None, what="it")


def _index(data: bytes) -> object:
    index = digests.read_index(data, what="it")
    list(map(manifests.bare_entry, index.manifests))
    return manifests.select_platform(index, _LINUX)


def _reference(data: bytes) -> object:
    reference = parse_reference(data.decode("utf-8", "surrogatepass"))
    return parse_reference(str(reference))


def _evidence(corpus: Corpus) -> tuple[Target, ...]:
    refusal = (Refusal,)
    entries = _within("verificationMaterial", "tlogEntries")
    simple = base64.b64decode(json.loads(corpus.layers[0])["payload"])
    return (
        Target("bundles", 10, corpus.bundles, partial(bundles.parse_bundle, found="here"), refusal),
        Target("layers", 7, corpus.layers, _parse_layer, (Refusal, InvalidDocument), _tree),
        Target("statements", 6, [corpus.plain.payload], partial(_check_statement, enveloped=True), refusal),
        Target("layers' statements", 6, [simple], partial(_check_statement, enveloped=False), refusal),
        Target("log entries", 4, corpus.bundles, partial(_check_entries, corpus.root), refusal, entries),
        Target("certificates", 4, [corpus.certificate], partial(_check_certificate, corpus), refusal),
        Target("timestamps", 1, corpus.stamped.timestamps, partial(_check_stamp, corpus), refusal),
        Target("public keys", 4, [corpus.key], keys.load_pem, (UnusableKey,)),
    )


def _check_statement(payload: bytes, *, enveloped: bool) -> None:
    digest = Digest(f"sha256:{'0' * 64}")
    statements.check_statement(
        _signed(payload, enveloped=enveloped), digest, (statements.SIGNATURE_PREDICATE,)
    )


def _signed(payload: bytes, *, enveloped: bool) -> SignedStatement:
    kind = statements.IN_TOTO if enveloped else cosign2.MEDIA_TYPE
    return SignedStatement("here", enveloped, kind, payload, payload, b"", None, (), (), needs_proof=False)


def _parse_layer(data: bytes) -> object:
    """Annotations come from a manifest, which was read strictly before."""
    given = strictjson.decode(data, _Layer, what="it")
    return cosign2.parse_layer(b"{}", given.annotations, "here")


class _Layer(msgspec.Struct):
    annotations: dict[str, str] = {}


def _check_entries(root: TrustedRoot, data: bytes) -> None:
    signed = bundles.parse_bundle(data, "here")
    for entry, _ in log_inclusion.logged(signed.entries, root.logs, needs_proof=signed.needs_proof):
        log_entries.check_entry(entry, signed)


def _check_certificate(corpus: Corpus, der: bytes) -> None:
    """Each step by itself: the first refusal would hide what the others make of it."""
    certificate = bundles.load_certificate(der)
    times = [entry.integrated for entry in corpus.plain.entries if entry.integrated]
    issuer = corpus.root.authorities[0].certificates[0]
    steps: tuple[Callable[[], Any], ...] = (
        lambda: certificates.issuer_of(certificate, times, corpus.root.authorities),
        lambda: certificates.check_issuance(certificate, issuer, corpus.root.certificate_logs),
        lambda: certificates.named_in(certificate),
        lambda: log_entries.check_entry(corpus.plain.entries[0], corpus.plain),
    )
    refused = None
    with quiet():
        for step in steps:
            try:
                step()
            except Refusal as refusal:
                refused = refusal
    if refused is not None:
        raise refused


def _check_stamp(corpus: Corpus, stamp: bytes) -> object:
    given = msgspec.structs.replace(corpus.stamped, timestamps=(stamp,))
    with quiet():
        return timestamps.times_of(given, (), corpus.root.timestampers)


def _beliefs(corpus: Corpus, folder: Path) -> tuple[Target, ...]:
    invalid = (InvalidPolicy,)
    verdict = json.dumps(_VERDICT).encode()
    return (
        Target("policies", 5, [_POLICY], partial(_policy, folder), invalid, _tree),
        Target("policy files", 0.5, [_POLICY, _POLICY_LINES], partial(_policy_file, folder), invalid, _both),
        Target("expressions", 4, _EXPRESSIONS, _expression, (InvalidPattern,), _text),
        Target("trusted roots", 0.5, [corpus.root_document], trusted_root.parse_root, (InvalidRoot,)),
        Target("verdicts", 3, [verdict], _verdict, ()),
    )


def _policy(folder: Path, data: bytes) -> object:
    def read(name: str) -> bytes:
        if name not in ("team.pub", "root.json"):
            raise InvalidPolicy(f"{name} is not there")
        return (folder / name).read_bytes()

    policy = parse_policy(json.loads(data), read, parse_pattern)
    files.check_policy(policy)
    return policy.fingerprint, policy.log_host, policy.rule_for(str(_REPOSITORY))


def _policy_file(folder: Path, data: bytes) -> object:
    file = folder / "policy.yaml"
    file.write_bytes(data)
    return files.read_policy(file)


def _expression(data: bytes) -> object:
    return parse_pattern(data.decode("utf-8", "surrogatepass")).matches(
        "https://github.com/schedkit/" + "a" * 60
    )


def _verdict(data: bytes) -> object:
    return verdict_cache.believe_kept(
        data, Digest(_VERDICT["digest"]), _VERDICT["repository"], _VERDICT["beliefs"]
    )


def _conversation(folder: Path) -> tuple[Target, ...]:
    unauthorized = (Unauthorized,)
    logins = partial(_login, folder / "auth.json")
    return (
        Target("auth files", 3, [_AUTH], logins, unauthorized),
        Target(
            "helpers' answers",
            3,
            [_HELPER],
            partial(login_helpers.parse_answer, program="helper", server=_HOST),
            unauthorized,
        ),
        Target("tokens", 7, _TOKENS, partial(challenges.parse_token, host=_HOST), (Refused,)),
        Target("challenges", 7, _CHALLENGES, _challenge, (Unauthorized, Refused), _text),
        Target("tags", 4, [b'{"name": "rig/image", "tags": ["v1", "v2", "latest"]}'], _tags, (Refused,)),
        Target("links", 5, _LINKS, _link, (Refused,), _text),
        Target("HTTP answers", 8, _ANSWERS, _http, (Broken,), Mutator.lines),
        Target("waits", 3, _WAITS, _wait, (), _text),
    )


def _login(file: Path, data: bytes) -> object:
    file.write_bytes(data)
    return credentials.CredentialFiles((file,)).find(_REPOSITORY)


def _challenge(data: bytes) -> object:
    challenge = challenges.parse_challenge(data.decode("utf-8", "surrogatepass"), host=_HOST)
    challenges.refuse_unsafe_realm(challenge, host=_HOST, secure=True)
    return challenge


def _tags(data: bytes) -> object:
    return client.read_tags(_answer(data, ""), _REPOSITORY)


def _link(data: bytes) -> object:
    return client.next_page(_answer(b"", data.decode("latin-1")), Ask(_REPOSITORY, "tags/list"))


def _http(data: bytes) -> object:
    """The answer arrives in two parts, and the connection ends after them."""
    parts = iter((data[:200], data[200:], b""))
    exchange = Exchange(question("GET", "/", [("Host", _HOST)]), lambda: next(parts, b""))
    list(exchange.request(()))
    return exchange.head(), sum(map(len, exchange.pieces()))


def _wait(data: bytes) -> object:
    return bodies.retry_after(data.decode("latin-1"))


def _answer(body: bytes, link: str) -> Answer:
    return Answer(200, f"https://{_HOST}/v2/rig/image/tags/list", {"link": link}, body)


def _catalogs() -> list[bytes]:
    """The shipped one is long; a few of its entries do."""
    entries = json.loads(Path(schedkit.__file__).with_name("catalog.json").read_bytes())
    names = sorted(entries, key=lambda name: len(json.dumps(entries[name])))[-3:]
    return [json.dumps({name: entries[name]}).encode() for name in names]


_DIGEST = "sha256:" + "ab" * 32
_CONFIG = {
    "architecture": "amd64",
    "os": "linux",
    "config": {
        "Entrypoint": ["/bin/scx_rusty"],
        "Cmd": ["--verbose"],
        "User": "0:0",
        "Labels": {configs.MIN_KERNEL: "6.12"},
    },
    "rootfs": {"type": "layers", "diff_ids": [_DIGEST]},
}
_CONFIGS = [json.dumps(_CONFIG).encode()]
_PLATFORMS = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": manifests.IMAGE_INDEX,
        "manifests": [
            {
                "mediaType": manifests.IMAGE_MANIFEST,
                "digest": _DIGEST,
                "size": 500,
                "platform": {"os": "linux", "architecture": architecture, "variant": "v8"},
            }
            for architecture in ("amd64", "arm64")
        ],
    }
).encode()
_REFERENCES = [
    b"ghcr.io/schedkit/scx_rusty:1.0.3",
    b"Registry.Example:443/a/b__c/d-e.f@" + _DIGEST.encode(),
    b"busybox",
    b"localhost:5000/x:latest@" + _DIGEST.encode(),
    b"[::1]:5000/a/b:c",
]
_POLICY = json.dumps(
    {
        "keys": [{"path": "team.pub"}],
        "identities": [
            {"issuer": "https://accounts.example", "subjectRegExp": r"[a-z.]+@example\.org"},
            {"issuerRegExp": "https://.*", "subject": "https://github.com/me/it"},
            {
                "issuer": "https://accounts.example",
                "subject": "https://github.com/me/it",
                "sourceRepositoryRegExp": r"https://github\.com/me/.*",
                "sourceRepositoryOwner": "https://github.com/me",
            },
        ],
        "requireLog": True,
        "rekorURL": "https://rekor.sigstore.dev",
        "trustedRoot": "root.json",
        "repositories": [{"match": "registry.example/schedulers", "keys": [{"path": "team.pub"}]}],
    }
).encode()
_POLICY_LINES = rb"""keys:
  - path: team.pub
identities:
  - issuer: https://accounts.example
    subjectRegExp: '[a-z.]+@example\.org'
requireLog: true
rekorURL: https://rekor.sigstore.dev
repositories:
  - match: registry.example/schedulers
    identities: [{issuer: "https://accounts.example", subject: release@example.org}]
"""
_EXPRESSIONS = [
    rb"^https://github\.com/schedkit/.*$",
    rb"(?:[a-z]+|\d{2,5})*@example\.org",
    rb"((a|b)*c+){1,20}[^\W_]?",
    rb"https://github\.com/[\w.-]+/[^/]+@refs/tags/v\d+(\.\d+){0,2}",
]
_VERDICT = {
    "digest": _DIGEST,
    "repository": str(_REPOSITORY),
    "beliefs": "0" * 64,
    "signer": "https://github.com/me/it",
    "issuer": "https://accounts.example",
    "time": "2026-01-01T00:00:00Z",
    "mode": "keyless",
    "reached": "2026-11-01T00:00:00Z",
}
_AUTH = json.dumps(
    {
        "auths": {
            f"{_HOST}/rig": {"auth": base64.b64encode(b"name:password").decode()},
            f"https://{_HOST}/v1/": {"username": "name", "password": "password"},
            "other.example": {"identitytoken": "token"},
        },
        "credHelpers": {"elsewhere.example": "rig"},
        "credsStore": "",
    }
).encode()
_HELPER = b'{"ServerURL": "registry.rig.test", "Username": "name", "Secret": "password"}'
_TOKENS = [
    b'{"token": "abc.def.ghi", "expires_in": 300}',
    b'{"access_token": "abc", "issued_at": "2026-01-01T00:00:00Z"}',
]
_CHALLENGES = [
    b'Bearer realm="https://auth.rig.test/token",service="registry.rig.test",scope="repository:rig/image:pull"',
    b'Basic realm="rig"',
    b'Negotiate, Bearer realm="https://auth.rig.test/\\"token", error=invalid_token',
]
_LINKS = [
    b'</v2/rig/image/tags/list?n=1000&last=v2>; rel="next"',
    b"<https://registry.rig.test/v2/next>; rel=next",
]
_ANSWERS = [
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\nETag: x\r\n\r\n{"a": "bcd"}',
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n!\r\n0\r\n\r\n",
    b"HTTP/1.0 307 Elsewhere\r\nLocation: https://elsewhere.example/v2/\r\nDocker-Distribution: 1\r\n\r\nx",
]
_WAITS = [b"120", b"Wed, 21 Oct 2026 07:28:00 GMT"]
