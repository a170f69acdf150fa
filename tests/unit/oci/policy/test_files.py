"""Policy files, the embedded root, and that no bytes get anything but a refusal out of the parsers."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.signatures.forging import Made, Recipe, Workshop
from schedkit.model.trust.policy import InvalidPolicy
from schedkit.model.trust.steps import Refusal
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.files import check_policy, read_policy
from schedkit.oci.sigstore import bundles, cosign2, statements
from schedkit.oci.sigstore.trusted_root import InvalidRoot, parse_root
from schedkit.oci.sigstore.verify import Question, judge

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root takes so few")
SPOILED: list[Callable[[Path], object]] = [
    lambda file: file.chmod(0o664),
    lambda file: file.symlink_to(file.rename(file.with_suffix(".real"))),
    lambda file: os.chown(file, 1, 1),
]


@pytest.fixture(scope="module")
def made() -> Made:
    return Workshop().make(Recipe(stamped=True))


# --- policy files


@pytest.mark.parametrize(
    ("source", "days", "why"),
    [
        ("https://elsewhere.test", 0, "it is from 'https://elsewhere.test'"),
        (dated_root.SIGSTORE, 30, "is in the future"),
        (dated_root.SIGSTORE, 0, None),
    ],
)
def test_only_a_root_of_the_public_sigstore_takes_its_place(
    tmp_path: Path, source: str, days: int, why: str | None
) -> None:
    folder, taken = tmp_path / "root", dt.datetime.now(dt.UTC).date() + dt.timedelta(days=days)
    folder.mkdir(mode=0o700)
    (folder / dated_root.TRUSTED_ROOT).write_bytes(b"another")
    (folder / dated_root.ORIGIN).write_text(json.dumps({"taken": taken.isoformat(), "source": source}))

    found = dated_root.current(folder)

    assert (found.document == b"another") is (why is None)
    assert why is None or why in str(found.why_not_newer)


@pytest.mark.parametrize("origin", [b"", b"[]", b'{"source": "\xff"}'])
def test_an_updated_root_whose_origin_cannot_be_read_is_told_and_not_used(
    tmp_path: Path, origin: bytes
) -> None:
    folder = tmp_path / "root"
    folder.mkdir(mode=0o700)
    (folder / dated_root.TRUSTED_ROOT).write_bytes(b"another")
    (folder / dated_root.ORIGIN).write_bytes(origin)

    found = dated_root.current(folder)

    assert found.document == dated_root.embedded().document
    assert "is not used" in str(found.why_not_newer)


def test_files_that_a_policy_names_are_found_beside_it(tmp_path: Path, made: Made) -> None:
    (tmp_path / "signer.pub").write_bytes(made.public_key)
    (tmp_path / "root.json").write_bytes(made.root)
    (tmp_path / "policy.yaml").write_text("{keys: [{path: signer.pub}], trustedRoot: root.json}")

    policy = read_policy(tmp_path / "policy.yaml")

    assert policy.rule.keys[0].content == made.public_key
    assert dated_root.document_for(policy, dated_root.embedded()) == made.root
    check_policy(policy)


@as_root
@pytest.mark.parametrize("name", ["signer.pub", "root.json", "policy.yaml"])
@pytest.mark.parametrize("spoil", SPOILED, ids=["others may write", "a link", "another's"])
def test_root_takes_no_policy_from_files_that_others_may_write(
    tmp_path: Path, made: Made, name: str, spoil: Callable[[Path], object]
) -> None:
    test_files_that_a_policy_names_are_found_beside_it(tmp_path, made)

    spoil(tmp_path / name)

    with pytest.raises(InvalidPolicy, match=f"{name} is not used: .*(other users|does not follow|user 1)"):
        read_policy(tmp_path / "policy.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("keys: [{path: missing.pub}]", "missing.pub cannot be read: No such file or directory"),
        ("keys: []\nkeys: []", "line 1: the key 'keys' appears twice"),
        ("".join(f"k{at}: 0\n" for at in range(4000)) + "k3999: 0", "the key 'k3999' appears twice"),
        (r'keys: [{path: "\0"}]', "cannot be read: embedded null byte"),
        ("keys: [", "is not YAML"),
        ("[" * 600, "is not YAML"),
        ("!!python/object:os.system {}", "line 1: a tag is not accepted"),
        ("keys: []\nrequireLog: !!bool zz", "line 2: a tag is not accepted"),
        ("requireLog: !!timestamp zz", "line 1: a tag is not accepted"),
        ("requireLog: 2001-99-99", "is not YAML"),
        ("\x00", "is not YAML"),
        ("a: &a [*a]", "line 1: an alias is not accepted"),
        (" " * (300 << 10), "has more than"),
    ],
)
def test_a_wrong_policy_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)

    with pytest.raises(InvalidPolicy) as wrong:
        read_policy(file)

    assert str(file) in str(wrong.value)
    assert says in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("keys: [{path: policy.yaml}]", "the key policy.yaml cannot be used: it is not a public key"),
        ("trustedRoot: policy.yaml", "trustedRoot policy.yaml cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_told_when_a_policy_is_checked(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "policy.yaml").write_text(text)

    with pytest.raises(InvalidPolicy, match=re.escape(says)):
        check_policy(read_policy(tmp_path / "policy.yaml"))


def test_a_weak_key_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    weak = rsa.generate_private_key(65537, 1024).public_key()  # noqa: S505 - what is tried
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "weak.pub").write_bytes(weak.public_bytes(serialization.Encoding.PEM, form))
    (tmp_path / "policy.yaml").write_text("keys: [{path: weak.pub}]")

    with pytest.raises(InvalidPolicy, match="RSA from 2048"):
        check_policy(read_policy(tmp_path / "policy.yaml"))


# --- the embedded root


def test_the_embedded_root_knows_both_public_logs() -> None:
    root = parse_root(dated_root.embedded().document)

    hosts = [log.host for log in root.logs_below("rekor.sigstore.dev")]

    assert hosts == ["rekor.sigstore.dev", "log2025-1.rekor.sigstore.dev"]
    assert root.logs_below("sigstore.example") == ()


def test_a_root_that_nobody_looked_after_is_warned_about() -> None:
    embedded = dated_root.embedded()
    last_day = embedded.origin.taken + dated_root.OLD_AFTER

    assert embedded.warning(last_day) is None
    assert "is 181 days old" in str(embedded.warning(last_day + dt.timedelta(days=1)))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(lambda root: root.pop("mediaType"), "`mediaType`", id="no kind"),
        pytest.param(
            lambda root: root.update(mediaType="text/plain"), "unknown kind 'text/plain'", id="another kind"
        ),
        pytest.param(
            lambda root: root["tlogs"][0]["publicKey"].update(rawBytes="AAAA"),
            "tlogs[0] cannot be read: it is not a public key",
            id="no key",
        ),
        pytest.param(
            lambda root: root["certificateAuthorities"][0]["certChain"].update(certificates=[]),
            "certificateAuthorities[0] is an authority without a certificate",
            id="no certificate",
        ),
        pytest.param(
            lambda root: root["certificateAuthorities"][0]["certChain"]["certificates"][0].update(
                rawBytes="AAAA"
            ),
            "certificateAuthorities[0] cannot be read: ",
            id="not a certificate",
        ),
        pytest.param(
            lambda root: root["tlogs"][0]["publicKey"].update(validFor={"start": "2021-01-01T00:00:00"}),
            "tlogs[0].publicKey has the time 2021-01-01T00:00:00 without a zone",
            id="a time without a zone",
        ),
    ],
)
def test_a_wrong_trusted_root_is_refused_and_says_where(
    made: Made, spoil: Callable[[Any], None], says: str
) -> None:
    root = json.loads(made.root)
    spoil(root)

    with pytest.raises(InvalidRoot, match=re.escape(says)):
        parse_root(json.dumps(root).encode())


_PERIODS = [
    ("tlogs", "publicKey"),
    ("ctlogs", "publicKey"),
    ("certificateAuthorities", None),
    ("timestampAuthorities", None),
]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda holder: holder.pop("validFor"), id="none at all"),
        pytest.param(lambda holder: holder.update(validFor=None), id="null"),
        pytest.param(lambda holder: holder.update(validFor={}), id="an empty one"),
        pytest.param(lambda holder: holder["validFor"].update(start=None), id="null for a beginning"),
        pytest.param(
            lambda holder: holder.update(validFor={"end": "2031-01-01T00:00:00Z"}), id="nothing but an end"
        ),
    ],
)
@pytest.mark.parametrize(("kind", "inner"), _PERIODS)
def test_nobody_is_trusted_since_ever(
    made: Made, kind: str, inner: str | None, spoil: Callable[[Any], None]
) -> None:
    root = json.loads(made.root)
    holder = root[kind][0]
    spoil(holder[inner] if inner else holder)
    where = f"{kind}[0].{inner}" if inner else f"{kind}[0]"

    with pytest.raises(InvalidRoot, match=re.escape(f"{where} has no validFor.start")):
        parse_root(json.dumps(root).encode())


def test_a_key_that_is_not_known_anywhere_in_a_root_is_named_and_refused() -> None:
    """A misspelt end would make an ended key good for ever."""
    root = json.loads(dated_root.embedded().document)
    objects = {id(holder): holder for holder, _ in _places(root) if isinstance(holder, dict)}

    for holder in objects.values():
        holder["ende"] = "2021-01-01T00:00:00Z"
        with pytest.raises(InvalidRoot, match="`ende`"):
            parse_root(json.dumps(root).encode())
        del holder["ende"]

    assert len(objects) > 20
    assert parse_root(json.dumps(root).encode()).logs


def test_a_key_that_stands_twice_anywhere_in_a_root_is_named_and_refused(made: Made) -> None:
    """Of two ends one reader takes the first, another the second."""
    names = sorted(set(re.findall(rb'"(\w+)": ', made.root)))

    for name in names:
        doubled = re.sub(rb'("%b": )' % name, rb'"%b": null, \1' % name, made.root, count=1)
        with pytest.raises(InvalidRoot, match=f"names '{name.decode()}' twice"):
            parse_root(doubled)

    assert len(names) > 15


def test_keys_are_those_of_json_and_not_those_of_protobuf(made: Made) -> None:
    spelled = made.root.replace(b'"validFor"', b'"valid_for"')

    with pytest.raises(InvalidRoot, match="`valid_for`"):
        parse_root(spelled)


def test_roots_that_sigstore_publishes_are_read() -> None:
    """The public one and the one for trials, as its own package has them."""
    kept = [file for file in importlib.metadata.files("sigstore") or () if file.name == "trusted_root.json"]
    documents = [file.read_binary() for file in kept]

    assert len(documents) >= 2
    assert all(parse_root(document).logs for document in documents)


def test_everything_that_sigstores_schema_names_may_stand_in_a_root(made: Made) -> None:
    root = json.loads(made.root)
    root["tlogs"][0] |= {"checkpointKeyId": root["tlogs"][0]["logId"], "operator": "rig.test"}
    root["tlogs"][0]["hashAlgorithm"] = 1  # as protobuf's JSON may have it
    root["certificateAuthorities"][0]["operator"] = "rig.test"

    assert len(parse_root(json.dumps(root).encode()).logs) == 2


# --- no bytes get anything but a refusal out


def question(made: Made) -> Question:
    from rig.signatures.forgeries import by_identity
    from rig.signatures.forging import REPOSITORY

    return Question(made.digest, REPOSITORY, by_identity(made).rule, parse_root(made.root))


@given(st.data())
def test_a_bundle_with_any_bytes_changed_is_refused_or_as_good(made: Made, data: st.DataObject) -> None:
    document = bytearray(made.document)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(document) - 1))
        document[position] = data.draw(st.integers(0, 255))

    try:
        verified = judge(bundles.parse_bundle(bytes(document), "here"), question(made))
    except Refusal:
        return
    assert verified.digest == made.digest


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["AAAA", "0", "-1", "9" * 30]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_a_bundle_with_any_value_replaced_is_refused_or_as_good(made: Made, data: st.DataObject) -> None:
    """One value anywhere in the bundle becomes another, of any type."""
    bundle = json.loads(made.document)
    holder, key = data.draw(st.sampled_from(list(_places(bundle))))
    holder[key] = data.draw(_JSON)

    try:
        verified = judge(bundles.parse_bundle(json.dumps(bundle).encode(), "here"), question(made))
    except Refusal:
        return
    assert verified.digest == made.digest


def _places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    """Every place in a document that holds a value."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [(value, key) for key, _ in items] + [place for _, inner in items for place in _places(inner)]


@given(
    st.binary(max_size=64),
    st.dictionaries(st.sampled_from(["signature", "certificate", "bundle"]), st.text()),
)
def test_a_layer_of_anything_is_refused(payload: bytes, annotations: dict[str, str]) -> None:
    names = {
        "signature": "dev.cosignproject.cosign/signature",
        "certificate": "dev.sigstore.cosign/certificate",
        "bundle": "dev.sigstore.cosign/bundle",
    }

    with pytest.raises(Refusal):
        statements.check_statement(
            cosign2.parse_layer(payload, {names[key]: text for key, text in annotations.items()}, "here"),
            "sha256:" + "0" * 64,
            (),
        )
