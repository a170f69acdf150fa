"""The verbs of `schedctl` that need no container runtime, as a user runs them, on real registries."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from click.testing import CliRunner

from rig.base import processes
from rig.base.certificates import Authority
from rig.base.errors import RigError
from rig.base.processes import Completed
from rig.build import debian
from rig.guest import btf, schedulers
from rig.registries.distribution import digest_of
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.runtimes.podman import Podman
from rig.signatures.cosign import Cosign
from rig.signatures.sigstore import Sigstore
from schedkit.schedctl import main

GOLDEN = Path(__file__).parents[1] / "golden/schedctl"
SCHEDCTL = Path(sys.executable).with_name("schedctl")
Schedctl: TypeAlias = Callable[..., "Ended"]


class Ended(NamedTuple):
    """How a call of the command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def schedctl(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Schedctl:
    """The command as somebody with an empty home runs it, who trusts the rig's registries."""
    home = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "SCHEDCTL_REGISTRY_CA": str(authority.ca_file),
        "SCHEDCTL_CATALOG": str(tmp_path / "own.json"),
    }
    (tmp_path / "own.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    def run(*words: str, check: bool = True) -> Ended:
        done = CliRunner().invoke(main.main, words, env=home)
        if check and done.exit_code != 0:
            raise RigError(f"schedctl {' '.join(words)} ended with {done.exit_code}: {done.stderr}")
        if done.exc_info and not isinstance(done.exception, SystemExit | None):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    return run


def answer(done: Ended | Completed) -> Any:  # noqa: ANN401 - JSON
    return json.loads(done.stdout)


def push(registry: Registry, repository: str, *tags: str, name: str = "fifo") -> str:
    """A scheduler's image for two platforms under these tags; returns its digest."""
    layout = images.multi_platform_scheduler(name)
    return {registry.client.push(layout, repository, tag) for tag in tags}.pop()


def offline(folder: Path, *words: str) -> Completed:
    """The command without a network, with a layout in the folder `stick`."""
    command: list[str | Path] = [
        "unshare",
        "--net",
        "--map-root-user",
        SCHEDCTL,
        "--layout",
        folder / "stick",
    ]
    home = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "SCHEDCTL_CATALOG": str(folder / "own.json")}
    return processes.run([*command, *words], env=home, cwd=folder)


# versions


def test_versions_are_sorted_as_versions_and_signatures_are_left_out(
    registry: Registry, schedctl: Schedctl
) -> None:
    evidence = f"sha256-{'a' * 64}.sig"
    push(registry, "rig/versions", "1.0.9", "1.0.10", "latest", "1.0.9-rc1", evidence)
    image = f"{registry.host}/rig/versions"

    assert schedctl("versions", image).stdout == "1.0.9-rc1\n1.0.9\n1.0.10\nlatest\n"
    assert answer(schedctl("versions", image, "--all", "-o", "json")) == {
        "schema_version": "1",
        "repository": image,
        "versions": ["1.0.9-rc1", "1.0.9", "1.0.10", "latest", evidence],
    }


def test_versions_of_a_repository_that_is_not_there_fail_with_a_next_step(
    any_registry: Registry, schedctl: Schedctl
) -> None:
    done = schedctl("versions", f"{any_registry.host}/rig/nothing", check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"Error: cannot list the versions of {any_registry.host}/rig/nothing\n  why:"
    )
    assert "\n  next: " in done.stderr


# info


def test_info_shows_labels_platforms_digest_and_what_the_catalog_knows(
    registry: Registry, schedctl: Schedctl, tmp_path: Path
) -> None:
    digest = push(registry, "rig/info", "1.0.0")
    entry = {"imageURI": f"{registry.host}/rig/info:1.0.0", "opsName": "rig_fifo", "minKernel": "6.13"}
    (tmp_path / "own.json").write_text(json.dumps({"fifo": entry}))

    found = answer(schedctl("info", "fifo", "-o", "json"))

    assert (found["image"], found["digest"]) == (entry["imageURI"], digest)
    assert found["platforms"] == ["linux/amd64", "linux/arm64"]
    assert (found["platform"], found["version"], found["min_kernel"]) == ("linux/amd64", "1.0.0", "6.12")
    assert found["labels"] == images.scheduler_labels("fifo")
    assert found["catalog"]["ops_name"] == "rig_fifo"


def test_info_of_an_image_that_no_catalog_knows_shows_the_image_alone(
    any_registry: Registry, schedctl: Schedctl
) -> None:
    digest = any_registry.client.push(images.scheduler("fifo"), "rig/alone", "1.0.0")

    shown = schedctl("info", f"{any_registry.host}/rig/alone@{digest}").stdout

    assert f"Digest:     {digest}\n" in shown
    assert "Kernel:     6.12 or newer\n" in shown
    assert "catalog" not in shown


def test_info_of_a_version_that_is_not_there_says_where_to_look(
    any_registry: Registry, schedctl: Schedctl
) -> None:
    push(any_registry, "rig/other", "1.0.0")

    done = schedctl("info", f"{any_registry.host}/rig/other", "--version", "2.0", "-o", "json", check=False)

    assert done.returncode == 1
    assert "schedctl versions" in json.loads(done.stderr)["error"]["next"]


def test_without_a_network_info_says_that_the_catalog_still_answers(schedctl: Schedctl) -> None:
    done = schedctl("info", f"127.0.0.1:{processes.free_port()}/x/y", check=False)

    assert done.returncode == 1
    assert "`schedctl catalog show NAME` works without a network" in done.stderr


# package


@pytest.fixture
def program() -> Path:
    return schedulers.binary("fifo")


@pytest.fixture
def busybox_program() -> Path:
    """A static program that can do most things."""
    tree = debian.machine().tree("busybox", ["busybox-static"], needs=False)
    return next(file for file in (tree / "bin/busybox", tree / "usr/bin/busybox") if file.exists())


def packaged(schedctl: Schedctl, image: str, *words: str | Path) -> Any:  # noqa: ANN401 - JSON
    return answer(schedctl("package", "--image", image, "-o", "json", *map(str, words)))


def test_a_packaged_program_is_an_image_with_its_labels(
    any_registry: Registry, schedctl: Schedctl, program: Path
) -> None:
    image = f"{any_registry.host}/rig/packaged:1.2.3"
    about = [
        "--description",
        "Runs tasks in order.",
        "--source",
        "https://source.example/fifo",
        "--label",
        "a=b=c",
    ]

    made = packaged(schedctl, image, program, *about)
    found = answer(schedctl("info", image, "-o", "json"))

    assert (found["digest"], found["platforms"]) == (made["digest"], ["linux/amd64"])
    assert found["labels"] == {
        "a": "b=c",
        "org.opencontainers.image.description": "Runs tasks in order.",
        "org.opencontainers.image.source": "https://source.example/fifo",
        "org.opencontainers.image.title": "scx_rig_fifo",
        "org.opencontainers.image.version": "1.2.3",
        "org.schedkit.scheduler.kernel.min-version": "6.12",
    }


def test_programs_for_several_platforms_become_one_image(
    any_registry: Registry, schedctl: Schedctl, program: Path
) -> None:
    image = f"{any_registry.host}/rig/both:1"

    packaged(schedctl, image, schedulers.foreign(), program, "--name", "scx_both")

    assert answer(schedctl("info", image, "-o", "json"))["platforms"] == ["linux/amd64", "linux/arm64"]


def test_the_same_program_gives_the_same_image_wherever_and_whenever_it_is_packaged(
    any_registry: Registry, schedctl: Schedctl, program: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / program.name
    copy.parent.mkdir()
    copy.write_bytes(program.read_bytes())
    copy.touch()

    first = packaged(schedctl, f"{any_registry.host}/rig/same:1", program)
    second = packaged(schedctl, f"{any_registry.host}/rig/same:1", copy, "--to", f"oci:{tmp_path}/layout")
    other = packaged(schedctl, f"{any_registry.host}/rig/same:1", program, "--min-kernel", "6.13")

    assert first["digest"] == second["digest"] != other["digest"]


def test_a_packaged_program_runs_under_podman(
    any_registry: Registry, schedctl: Schedctl, podman: Podman, busybox_program: Path
) -> None:
    image = f"{any_registry.host}/rig/runs:1"
    packaged(schedctl, image, busybox_program, "--name", "busybox", "--arg", "echo", "--arg", "it runs")

    done = podman.run("run", "--rm", "--read-only", image)

    assert done.stdout == "it runs\n"


def test_a_dynamic_program_is_refused_until_its_libraries_are_named_and_then_runs_under_podman(
    any_registry: Registry, schedctl: Schedctl, podman: Podman
) -> None:
    image = f"{any_registry.host}/rig/dynamic:1"
    refused = schedctl("package", "--image", image, "/usr/bin/env", check=False)
    folders = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu")

    packaged(
        schedctl, image, "/usr/bin/env", *(word for folder in folders for word in ("--libraries", folder))
    )

    assert "why:  it is linked to libc.so.6, /lib64/ld-linux-x86-64.so.2" in refused.stderr
    assert "LD_LIBRARY_PATH=/usr/lib" in podman.run("run", "--rm", image).stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tests", "--image", "localhost:1/x:1"], "Is a directory"),
        (["/etc/hostname", "--image", "localhost:1/x:1"], "it is not an ELF program"),
        (["/usr/bin/env", "--image", "localhost:1/x"], "write registry/path:tag"),
        (["/usr/bin/env", "--image", "localhost:1/x:1", "--label", "x"], "write KEY=VALUE"),
        (["/usr/bin/env", "--image", "localhost:1/x:1", "--name", "../x"], "something like scx_mini"),
        (["/usr/bin/env", "--image", "localhost:1/x:1", "--min-kernel", "new"], "something like 6.12"),
        (["/usr/bin/env", "--image", "localhost:1/x:1", "--to", "localhost:2"], "is not an OCI layout"),
        (["one", "two", "--image", "localhost:1/x:1"], "two of them are for linux/amd64"),
        (["one", "two", "--image", "localhost:1/x:1"], "next: give one program for each platform"),
    ],
)
def test_what_cannot_be_packaged_is_refused_with_the_reason(
    schedctl: Schedctl, tmp_path: Path, words: list[str], complaint: str
) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("one", "two"):
        shutil.copy(schedulers.binary("fifo"), tmp_path / name)

    done = schedctl("package", *words, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr


# mirror


def test_a_mirrored_image_brings_its_platforms_and_signatures_along(
    any_registry: Registry, plain_registry: Registry, schedctl: Schedctl, cosign: Cosign
) -> None:
    digest = push(any_registry, f"rig/signed-{cosign.major}", "1.0.0")
    origin = f"{any_registry.host}/rig/signed-{cosign.major}"
    key = cosign.new_key()
    cosign.sign(f"{origin}@{digest}", key)

    mirrored = answer(
        schedctl("mirror", f"{origin}:1.0.0", "--to", f"{plain_registry.host}/copies", "-o", "json")
    )["images"][0]

    copy = f"{plain_registry.host}/copies/rig/signed-{cosign.major}"
    assert (mirrored["to"], mirrored["digest"]) == (f"{copy}:1.0.0", digest)
    assert mirrored["signatures"] >= 1
    assert cosign.verify(f"{copy}@{digest}", key).accepted
    assert not cosign.verify(f"{copy}@{digest}", cosign.new_key()).accepted


def test_from_a_layout_everything_can_be_read_without_a_network(
    any_registry: Registry, schedctl: Schedctl, tmp_path: Path
) -> None:
    digest = push(any_registry, "rig/portable", "1.0.0", "latest")
    entry = {"imageURI": f"{any_registry.host}/rig/portable"}
    (tmp_path / "own.json").write_text(json.dumps({"portable": entry}))
    for version in ("1.0.0", "latest"):
        schedctl("mirror", "portable", "--version", version, "--to", f"oci:{tmp_path}/stick")

    found = answer(offline(tmp_path, "info", "portable", "-o", "json"))
    versions = offline(tmp_path, "versions", "portable").stdout

    assert (found["digest"], found["labels"]) == (digest, images.scheduler_labels("fifo"))
    assert versions == "1.0.0\nlatest\n"


def test_a_second_mirroring_copies_nothing(
    any_registry: Registry, schedctl: Schedctl, tmp_path: Path
) -> None:
    push(any_registry, "rig/twice", "1")
    words = ["mirror", f"{any_registry.host}/rig/twice:1", "--to", f"oci:{tmp_path}/stick", "-o", "json"]

    first, second = answer(schedctl(*words)), answer(schedctl(*words))

    assert first["images"][0]["copied_bytes"] > 0
    assert second["images"][0] == first["images"][0] | {"copied_bytes": 0}


def test_a_mirror_is_asked_before_the_origin(
    any_registry: Registry, plain_registry: Registry, schedctl: Schedctl
) -> None:
    digest = push(plain_registry, "copies/somewhere/x", "1")
    mirror = f"origin.invalid/somewhere={plain_registry.host}/copies/somewhere"

    found = answer(
        schedctl("--registry-mirror", mirror, "info", "origin.invalid/somewhere/x:1", "-o", "json")
    )

    assert found["digest"] == digest


@pytest.mark.parametrize("place", ["oci:", "not a registry", "example"])
def test_a_place_that_is_none_is_refused(schedctl: Schedctl, place: str) -> None:
    done = schedctl("mirror", "localhost:1/x:1", "--to", place, check=False)

    assert done.returncode == 1
    assert "oci:FOLDER" in done.stderr


# verify

IDENTITY = "https://forge.rig.test/schedulers/.build.yml@refs/heads/main"
ISSUER = "https://issuer.rig.test"


def write_policy(folder: Path, sigstore: Sigstore, subject: str = IDENTITY) -> str:
    """A policy that trusts one identity of the stand-in."""
    (folder / "root.json").write_bytes(sigstore.trust.trusted_root.read_bytes())
    policy = {"identities": [{"issuer": ISSUER, "subject": subject}], "trustedRoot": "root.json"}
    (folder / "policy.yaml").write_text(json.dumps(policy))  # every JSON document is a YAML document
    return str(folder / "policy.yaml")


def sign(cosign: Cosign, reference: str, sigstore: Sigstore) -> None:
    cosign.sign_keyless(reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))


def test_an_image_is_verified_only_once_signed_and_only_for_the_signer_that_the_policy_names(
    any_registry: Registry, schedctl: Schedctl, cosign: Cosign, sigstore: Sigstore, tmp_path: Path
) -> None:
    digest = push(any_registry, f"rig/verified-{cosign.major}", "1.0.0")
    image = f"{any_registry.host}/rig/verified-{cosign.major}:1.0.0"
    policy = write_policy(tmp_path, sigstore)

    unsigned = schedctl("verify", image, "--trust-policy", policy, check=False)
    sign(cosign, f"{image}@{digest}", sigstore)
    found = answer(schedctl("verify", image, "--trust-policy", policy, "-o", "json"))
    write_policy(tmp_path, sigstore, "https://somebody.else")
    stranger = schedctl("verify", image, "--trust-policy", policy, check=False)
    by_default = schedctl("verify", image, check=False)

    assert (unsigned.returncode, stranger.returncode, by_default.returncode) == (1, 1, 1)
    assert unsigned.stderr.startswith(f"Error: cannot trust {image}\n  why:  {digest} is not signed")
    assert IDENTITY in stranger.stderr
    assert "add it to a policy" in stranger.stderr
    assert (found["digest"], found["signer"], found["issuer"]) == (digest, IDENTITY, ISSUER)
    assert (found["mode"], found["policy"]) == ("keyless", policy)


def test_a_mirrored_image_is_verified_from_a_layout_without_a_network(
    any_registry: Registry, schedctl: Schedctl, cosign: Cosign, sigstore: Sigstore, tmp_path: Path
) -> None:
    repository = f"{any_registry.host}/rig/carried-{cosign.major}"
    digest = push(any_registry, f"rig/carried-{cosign.major}", "1.0.0")
    sign(cosign, f"{repository}@{digest}", sigstore)
    schedctl("mirror", f"{repository}:1.0.0", "--to", f"oci:{tmp_path}/stick")
    policy = write_policy(tmp_path, sigstore)

    done = offline(tmp_path, "verify", f"{repository}:1.0.0", "--trust-policy", policy, "-o", "json")

    assert (answer(done)["digest"], answer(done)["signer"]) == (digest, IDENTITY)


@pytest.mark.parametrize("words", [["trust", "show"], ["list"], ["verify", "registry.invalid/x"]])
def test_who_has_no_home_is_told_no_tale_of_a_traceback(tmp_path: Path, words: list[str]) -> None:
    """As in some containers: the system does not know the user, and HOME names nothing."""
    command: list[str | Path] = [
        "unshare",
        "--map-user=54321",
        SCHEDCTL,
        "--layout",
        tmp_path / "none",
        *words,
    ]

    done = processes.run(command, env={"PATH": "/usr/bin:/bin"}, check=False)

    assert done.returncode == (1 if "verify" in words else 0)
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: cannot trust registry.invalid/x") or done.stdout


def test_trust_show_says_whom_our_own_workflows_have_to_run_for(schedctl: Schedctl) -> None:
    shown, told = (schedctl("trust", "show", "-o", form) for form in ("json", "text"))

    owners = [one["source_repository_owner"] for one in answer(shown)["signers"]]
    assert owners == ["https://github.com/schedkit"]
    assert "owned by https://github.com/schedkit" in told.stdout


def test_trust_show_names_the_signers_of_a_policy(
    schedctl: Schedctl, sigstore: Sigstore, tmp_path: Path
) -> None:
    policy = write_policy(tmp_path, sigstore)

    shown = answer(schedctl("trust", "show", "--trust-policy", policy, "-o", "json"))

    signer = {"repositories": "*", "kind": "identity", "who": IDENTITY, "issuer": ISSUER}
    assert shown["signers"] == [signer | {"source_repository": None, "source_repository_owner": None}]
    assert (shown["root"]["source"], shown["root"]["age_days"]) == ("root.json", None)


# catalog update


CATALOG = b'{"mine": {"imageURI": "registry.example/mine", "measured": true}}'


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder on a web server of this machine."""
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def artifact(schedctl: Schedctl, registry: Registry, repository: str = "rig/catalog") -> str:
    """The catalog as an artifact of the registry; its reference with the digest."""
    Path("published.json").write_bytes(CATALOG)
    reference = f"{registry.host}/{repository}:1"
    published = answer(schedctl("catalog", "publish", "published.json", "--image", reference, "-o", "json"))
    assert published["sha256"] == digest_of(CATALOG).removeprefix("sha256:")
    return f"{reference}@{published['digest']}"


@pytest.mark.parametrize("kind", ["path", "url", "reference"])
def test_a_catalog_is_updated_from_wherever_it_lies_if_its_checksum_is_known(
    any_registry: Registry, schedctl: Schedctl, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published/new.json").write_bytes(CATALOG)
    with served(tmp_path / "published") as url:
        places = {
            "path": "published/new.json",
            "url": f"{url}/new.json",
            "reference": artifact(schedctl, any_registry),
        }
        wanted = digest_of(CATALOG).removeprefix("sha256:")

        doubtful = schedctl("catalog", "update", places[kind], check=False)
        wrong = schedctl("catalog", "update", places[kind], "--sha256", "0" * 64, check=False)
        unchanged = schedctl("list").stdout
        done = answer(schedctl("catalog", "update", places[kind], "--sha256", wanted, "-o", "json"))

    assert (doubtful.returncode, wrong.returncode) == (1, 1)
    assert (f"--sha256 {wanted}" if kind != "reference" else "is not signed") in doubtful.stderr
    assert "mine" not in unchanged
    assert (done["added"], done["provenance"]["sha256"]) == (["mine"], wanted)
    assert "mine\n" in schedctl("list").stdout
    assert places[kind] in schedctl("catalog", "show").stdout


def test_nothing_but_a_catalog_is_published(schedctl: Schedctl, tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text('{"x": {"image": "y"}}')

    done = schedctl("catalog", "publish", "wrong.json", "--image", "localhost:1/x:1", check=False)

    assert done.returncode == 1
    assert "wrong.json: x: object contains unknown field `image`" in done.stderr


def test_a_catalog_is_read_from_a_url(schedctl: Schedctl, tmp_path: Path) -> None:
    (tmp_path / "new.json").write_bytes(CATALOG)

    with served(tmp_path) as url:
        listed = schedctl("--catalog", f"{url}/new.json", "list").stdout
        missing = schedctl("--catalog", f"{url}/old.json", "list", check=False)

    assert "mine\n" in listed
    assert "answered 404" in missing.stderr
    assert "a proxy may have" not in missing.stderr, "servers of files say no more than that"


def test_a_root_that_cannot_be_refreshed_stays(schedctl: Schedctl) -> None:
    before = schedctl("trust", "show").stdout

    done = schedctl("trust", "update", "--url", f"http://127.0.0.1:{processes.free_port()}", check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: the root was not updated; the current root stays\n")
    assert schedctl("trust", "show").stdout == before


def test_an_image_is_not_taken_for_a_catalog(any_registry: Registry, schedctl: Schedctl) -> None:
    push(any_registry, "rig/nocatalog", "1")

    done = schedctl(
        "catalog", "update", f"{any_registry.host}/rig/nocatalog:1", "--sha256", "0" * 64, check=False
    )

    assert done.returncode == 1
    assert "is not an artifact with one file of type application/vnd.schedkit.catalog" in done.stderr


def test_a_signed_catalog_is_believed_under_the_policy_and_an_older_one_no_more(
    any_registry: Registry,
    schedctl: Schedctl,
    cosign: Cosign,
    sigstore: Sigstore,
    tmp_path: Path,
) -> None:
    reference = artifact(schedctl, any_registry, f"rig/catalog-{cosign.major}")
    words = ["catalog", "update", reference, "--trust-policy", write_policy(tmp_path, sigstore)]

    unsigned = schedctl(*words, check=False)
    sign(cosign, reference, sigstore)
    done = answer(schedctl(*words, "-o", "json"))
    note = tmp_path / "data/schedkit/catalog.provenance.json"
    note.write_text(note.read_text().replace(done["provenance"]["signed"], "9999-01-01T00:00:00+00:00"))
    older = schedctl(*words, check=False)

    assert (unsigned.returncode, older.returncode) == (1, 1)
    assert "is not signed" in unsigned.stderr
    assert (done["added"], done["provenance"]["signer"]) == (["mine"], IDENTITY)
    assert "this catalog is older, or may be older, than the catalog of the last update" in older.stderr


# Byte by byte


@pytest.fixture
def signer(folder: Path, authority: Authority) -> Cosign:
    """One cosign, where its major does not matter."""
    return Cosign(3, folder / "cosign-3", ca_file=authority.ca_file)


def normal(text: str, registry: Registry, folder: Path) -> str:
    """The text without what differs from one run to the next, and with columns one space apart."""
    text = text.replace(registry.host, "registry.example").replace(str(folder), "<folder>")
    text = re.sub(r"[0-9a-f]{64}", "…", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "<time>", text)
    text = re.sub(r'(\b(?:size|bytes|copied_bytes)": )\d+', r"\1<number>", text)
    text = re.sub(r"\d+ bytes|\d+ of \d+", "<number>", text)
    return re.sub(r"(?<=\S) {2,}", " ", text)


def test_the_answers_of_verbs_are_the_golden_ones(
    any_registry: Registry, schedctl: Schedctl, signer: Cosign, sigstore: Sigstore, tmp_path: Path
) -> None:
    image = f"{any_registry.host}/golden/scx_rig_fifo:1.0.0"
    digest = push(any_registry, "golden/scx_rig_fifo", "1.0.0", "latest")
    (tmp_path / "own.json").write_text(json.dumps({"fifo": {"imageURI": image, "minKernel": "6.12"}}))
    (tmp_path / "new.json").write_bytes(CATALOG)
    sign(signer, f"{image}@{digest}", sigstore)
    policy = write_policy(tmp_path, sigstore)
    program, checksum = str(schedulers.binary("fifo")), digest_of(CATALOG)
    calls = {
        "versions": ["versions", "fifo"],
        "info": ["info", "fifo"],
        "verify": ["verify", "fifo", "--trust-policy", policy],
        "trust-show": ["trust", "show", "--trust-policy", policy],
        "mirror": ["mirror", "fifo", "--to", f"oci:{tmp_path}/stick"],
        "package": [
            "package",
            program,
            "--image",
            f"{any_registry.host}/golden/new:2",
            "--description",
            "New.",
        ],
        "catalog-publish": [
            "catalog",
            "publish",
            "new.json",
            "--image",
            f"{any_registry.host}/golden/catalog:1",
        ],
        "catalog-update": ["catalog", "update", "new.json", "--sha256", checksum],
    }

    said = {f"{name}.txt": schedctl(*words).stdout for name, words in calls.items()}
    said |= {f"{name}.json": schedctl(*words, "-o", "json").stdout for name, words in calls.items()}

    normalised = {name: normal(text, any_registry, tmp_path) for name, text in said.items()}
    assert normalised == {name: (GOLDEN / name).read_text() for name in said}


# doctor


def test_doctor_knows_which_functions_of_the_kernel_an_image_calls(
    any_registry: Registry, schedctl: Schedctl, tmp_path: Path
) -> None:
    digest = any_registry.client.push(images.scheduler("fifo"), "rig/doctor", "1.0.0")
    image = f"{any_registry.host}/rig/doctor@{digest}"
    good = btf.obtain("7")
    (tmp_path / "bad").write_bytes(btf.without_kfunc(good.read_bytes(), "scx_bpf_dsq_insert"))

    def found(types: Path) -> dict[str, tuple[str, str]]:
        said = answer(schedctl("doctor", "--image", image, "--btf", str(types), "-o", "json", check=False))
        return {each["id"]: (each["status"], each["detail"]) for each in said["checks"]}

    assert found(good)["image.found"] == ("pass", image)
    assert found(good)["image.kfuncs"] == ("pass", "scx_bpf_dsq_insert")
    assert found(tmp_path / "bad")["image.kfuncs"] == (
        "fail",
        "missing or wrongly described functions: scx_bpf_dsq_insert",
    )
