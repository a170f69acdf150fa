"""A newer trusted root comes from an update repository whose keys are known, or not at all."""

from __future__ import annotations

import datetime as dt
import functools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # re-exported, unsaid
from tuf.api.metadata import (  # type: ignore[attr-defined]  # as above
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from rig.base.certificates import Authority
from rig.registries import hostile
from rig.signatures.forging import Workshop
from schedkit.oci.http.proxies import Proxies
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.dated_root import current
from schedkit.oci.policy.root_update import UpdateFailed, update
from schedkit.oci.registry.download import Downloads
from schedkit.oci.registry.host import Patience

TODAY = dt.datetime.now(dt.UTC).date()


class Repository:
    """An update repository in a folder, with one key for everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signer = CryptoSigner.generate_ed25519()
        self.version = 10
        (folder / "targets").mkdir(parents=True)
        self.first_root = self._write("1.root.json", self._root(1, self.signer))

    def publish(self, trusted_root: bytes, *, signer: CryptoSigner | None = None, days: int = 7) -> None:
        """Offer a new trusted root; another signer than ours spoils it, and so do negative days."""
        self.version += 1
        expires = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=days)
        info = TargetFile.from_data("trusted_root.json", trusted_root, ["sha256"])
        (self.folder / "targets" / f"{info.hashes['sha256']}.trusted_root.json").write_bytes(trusted_root)
        targets = Targets(self.version, expires=expires, targets={"trusted_root.json": info})
        snapshot = Snapshot(self.version, expires=expires, meta={"targets.json": MetaFile(self.version)})
        stamp = Timestamp(self.version, expires=expires, snapshot_meta=MetaFile(self.version))
        self._write(f"{self.version}.targets.json", Metadata(targets), signer)
        self._write(f"{self.version}.snapshot.json", Metadata(snapshot))
        self._write("timestamp.json", Metadata(stamp))

    def rotate(self) -> None:
        """New keys, which the old ones have signed for."""
        old, self.signer = self.signer, CryptoSigner.generate_ed25519()
        root = self._root(2, self.signer)
        root.sign(old)
        root.sign(self.signer, append=True)
        root.to_file(str(self.folder / "2.root.json"))

    def _root(self, version: int, signer: CryptoSigner) -> Metadata[Root]:
        root = Root(version, expires=dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=365))
        for role in ("root", "timestamp", "snapshot", "targets"):
            root.add_key(signer.public_key, role)
        return Metadata(root)

    def _write(self, name: str, document: Metadata[Any], signer: CryptoSigner | None = None) -> bytes:
        document.sign(signer or self.signer)
        document.to_file(str(self.folder / name))
        return (self.folder / name).read_bytes()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Nothing to say."""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def url(repository: Repository) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(repository.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def downloads() -> Iterator[Downloads]:
    with closing(Downloads()) as downloads:
        yield downloads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "trust"


@pytest.fixture(scope="module")
def newer() -> bytes:
    return json.dumps(Workshop().trusted_root()).encode()


def test_before_any_update_the_embedded_root_is_in_use(folder: Path) -> None:
    assert current(folder).document == dated_root.embedded().document


def test_an_update_is_in_use_from_then_on(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes
) -> None:
    repository.publish(newer)

    updated = update(folder, TODAY, downloads, url=url, first_root=repository.first_root)

    assert updated.document == newer
    assert current(folder, source=url) == updated
    assert updated.age(TODAY) == dt.timedelta()


def test_new_keys_are_followed(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes
) -> None:
    repository.rotate()
    repository.publish(newer)

    assert update(folder, TODAY, downloads, url=url, first_root=repository.first_root).document == newer


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("signer", "cannot be trusted"),
        ("expired", "cannot be trusted"),
        ("older", "cannot be trusted"),
        ("bytes", "cannot be trusted"),
        ("no root", "cannot be used: it is not a trusted root"),
        ("away", "could not be read"),
    ],
)
def test_what_cannot_be_believed_changes_nothing(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes, spoil: str, says: str
) -> None:
    repository.publish(newer)
    before = update(folder, TODAY, downloads, url=url, first_root=repository.first_root)
    match spoil:
        case "signer":
            repository.publish(b"{}", signer=CryptoSigner.generate_ed25519())
        case "expired":
            repository.publish(newer + b" ", days=-1)
        case "older":
            repository.version -= 2
            repository.publish(newer + b" ")
        case "bytes":
            repository.publish(newer + b" ")
            newest = max((repository.folder / "targets").iterdir(), key=lambda file: file.stat().st_mtime_ns)
            newest.write_bytes(newer + b"\n")
        case "no root":
            repository.publish(b"{}")
        case _:
            (repository.folder / "timestamp.json").unlink()

    with pytest.raises(UpdateFailed, match=says):
        update(folder, TODAY, downloads, url=url, first_root=repository.first_root)

    assert current(folder, source=url) == before


def test_another_repository_than_the_known_one_is_not_believed(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes, tmp_path: Path
) -> None:
    repository.publish(newer)

    with pytest.raises(UpdateFailed):
        update(folder, TODAY, downloads, url=url, first_root=Repository(tmp_path / "another").first_root)


def test_an_empty_first_root_does_not_mean_the_public_one(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes
) -> None:
    repository.publish(newer)

    with pytest.raises(UpdateFailed):
        update(folder, TODAY, downloads, url=url, first_root=b"")

    assert not (folder / "metadata/root_history").exists()


def test_an_update_that_others_could_have_written_is_not_in_use(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes
) -> None:
    repository.publish(newer)
    update(folder, TODAY, downloads, url=url, first_root=repository.first_root)
    folder.chmod(0o777)

    found = current(folder, source=url)

    assert found.document == dated_root.embedded().document
    assert "chmod go-w" in str(found.warning(TODAY))


def test_an_update_older_than_the_package_is_not_in_use(
    repository: Repository, url: str, downloads: Downloads, folder: Path, newer: bytes
) -> None:
    repository.publish(newer)
    embedded = dated_root.embedded()
    before = embedded.origin.taken - dt.timedelta(days=1)
    update(folder, before, downloads, url=url, first_root=repository.first_root)

    assert current(folder, source=url).document == embedded.document


# --- the way to it is that to registries


def in_folder(repository: Repository) -> hostile.Behaviour:
    """Answers as a server of the repository's files does."""

    def behave(request: hostile.Request) -> list[bytes]:
        file = repository.folder / request.target.partition("/repository/")[2]
        return [hostile.answer(200, file.read_bytes()) if file.is_file() else hostile.answer(404)]

    return behave


def test_an_authority_that_was_named_vouches_for_the_server(
    repository: Repository, folder: Path, newer: bytes, tmp_path: Path
) -> None:
    repository.publish(newer)
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("updates", common_name="updates", sans=("127.0.0.1",))

    with hostile.Server({"/repository/": in_folder(repository)}, pair) as server:
        place = f"{server.url}/repository"
        with closing(Downloads()) as stranger, pytest.raises(UpdateFailed, match="cannot be trusted"):
            update(folder, TODAY, stranger, url=place, first_root=repository.first_root)
        with closing(Downloads(ca_file=authority.ca_file)) as downloads:
            updated = update(folder, TODAY, downloads, url=place, first_root=repository.first_root)

    assert updated.document == newer


def test_a_proxy_is_asked_in_its_place(repository: Repository, folder: Path, newer: bytes) -> None:
    repository.publish(newer)

    place = "http://updates.test/repository"
    with (
        hostile.Server({f"{place}/": in_folder(repository)}) as proxy,
        closing(Downloads(proxies=Proxies(http=proxy.url))) as downloads,
    ):
        updated = update(folder, TODAY, downloads, url=place, first_root=repository.first_root)

    assert updated.document == newer


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(hostile.silent, id="silent"),
        pytest.param(hostile.dripping(hostile.answer(200, bytes(1000))), id="dripping"),
        pytest.param(hostile.endless(), id="endless"),
    ],
)
def test_a_server_that_wastes_time_or_space_does_not_hold_us(
    repository: Repository, folder: Path, behaviour: hostile.Behaviour
) -> None:
    hasty = Patience(total_s=1, attempts=2, first_delay_s=0.02, slowest_bytes_per_s=100 << 20)
    begun = time.monotonic()

    with (
        hostile.Server({"/": behaviour}) as server,
        closing(Downloads(patience=hasty)) as downloads,
        pytest.raises(UpdateFailed, match="could not be read"),
    ):
        update(folder, TODAY, downloads, url=server.url, first_root=repository.first_root)

    assert time.monotonic() - begun < 10
