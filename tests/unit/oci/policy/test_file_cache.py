"""A policy's text is read once, and what it said is believed only from where nobody else can write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from schedkit.model.trust.policy import InvalidPolicy
from schedkit.oci.policy.file_cache import Readings
from schedkit.oci.policy.files import load_yaml, read_policy

POLICY = b"""
identities: [{issuer: https://issuer.test, subjectRegExp: 'https://forge\\.test/.*'}]
repositories: [{match: registry.test/a, keys: [{path: a.pub}], requireLog: yes}]
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give something away")


@pytest.fixture
def readings(tmp_path: Path) -> Readings:
    return Readings(tmp_path / "kept")


def never(text: bytes) -> object:
    """A reader that nobody may ask."""
    raise AssertionError(f"{text!r} is read again")


def kept_file(readings: Readings) -> Path:
    """Where the policy's reading is."""
    readings.load(POLICY)
    (file,) = readings.folder.iterdir()
    return file


def test_what_was_read_before_is_not_read_again(readings: Readings) -> None:
    first = readings.load(POLICY)

    assert readings.load(POLICY, never) == first == load_yaml(POLICY)


def test_a_policy_that_was_read_before_means_the_same(tmp_path: Path, readings: Readings) -> None:
    (tmp_path / "a.pub").write_bytes(b"a key")
    (tmp_path / "policy.yaml").write_bytes(POLICY)
    fresh = read_policy(tmp_path / "policy.yaml")
    readings.load(POLICY)

    again = read_policy(tmp_path / "policy.yaml", lambda text: readings.load(text, never))

    assert (again, again.fingerprint) == (fresh, fresh.fingerprint)


def test_files_that_the_policy_names_are_looked_at_each_time(tmp_path: Path, readings: Readings) -> None:
    (tmp_path / "policy.yaml").write_bytes(POLICY)
    found = set()
    for content in (b"a key", b"another"):
        (tmp_path / "a.pub").write_bytes(content)
        found.add(read_policy(tmp_path / "policy.yaml", readings.load).fingerprint)

    (tmp_path / "a.pub").unlink()

    assert len(found) == 2
    with pytest.raises(InvalidPolicy, match=r"a\.pub cannot be read"):
        read_policy(tmp_path / "policy.yaml", lambda text: readings.load(text, never))


@pytest.mark.parametrize("changed", [POLICY + b"\n", POLICY.replace(b"yes", b"no"), b""])
def test_another_text_is_read_anew(readings: Readings, changed: bytes) -> None:
    readings.load(POLICY)

    assert readings.load(changed) == load_yaml(changed)
    with pytest.raises(AssertionError, match="is read again"):
        readings.load(changed + b"#", never)


SPOILED: dict[str, Callable[[Path], object]] = {
    "others may write the file": lambda file: file.chmod(0o666),
    "others may write the folder": lambda file: file.parent.chmod(0o777),
    "a link": lambda file: file.symlink_to(file.rename(file.with_suffix(".real"))),
    "no JSON": lambda file: file.write_bytes(b"\xff"),
    "no mapping": lambda file: file.write_bytes(b"[]"),
    "of another text": lambda file: file.write_text(json.dumps({"text": "0" * 64, "document": {}})),
    "with more in it": lambda file: file.write_text(json.dumps(json.loads(file.read_text()) | {"more": 1})),
    "too large": lambda file: file.write_bytes(file.read_bytes() + b" " * (2 << 20)),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_reading_that_somebody_could_have_changed_is_not_believed(
    readings: Readings, spoil: Callable[[Path], object]
) -> None:
    spoil(kept_file(readings))

    with pytest.raises(AssertionError, match="is read again"):
        readings.load(POLICY, never)


@as_root
@pytest.mark.parametrize("part", ["folder", "file"])
def test_a_reading_of_somebody_else_is_not_believed(readings: Readings, part: str) -> None:
    file = kept_file(readings)
    os.chown(file if part == "file" else readings.folder, 1, 1)

    with pytest.raises(AssertionError, match="is read again"):
        readings.load(POLICY, never)


@pytest.mark.parametrize("text", [b"1: a", b"since: 2026-01-01", b"[a]", b"", b"a: .nan", b"true: a"])
def test_what_json_would_say_differently_is_not_kept(readings: Readings, text: bytes) -> None:
    readings.load(text)

    assert not readings.folder.exists()
    with pytest.raises(AssertionError, match="is read again"):
        readings.load(text, never)


def test_what_is_no_yaml_is_told_each_time(readings: Readings) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="expected"):
            readings.load(b"{")


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    assert Readings(tmp_path / "file" / "kept").load(POLICY) == load_yaml(POLICY)
