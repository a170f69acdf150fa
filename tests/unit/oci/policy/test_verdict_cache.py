"""Verdicts are kept for what they were reached for, and believed only from where nobody else can write."""

from __future__ import annotations

import ast
import datetime as dt
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml

from rig.base.errors import Unavailable
from rig.signatures.forgeries import by_identity
from rig.signatures.forging import Made, Recipe, Shelf, Workshop
from schedkit.disk.whole import MOST_FILES
from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository
from schedkit.model.trust.policy import Rule, TrustPolicy
from schedkit.model.trust.steps import REVISION, Refusal, Step
from schedkit.model.trust.verified import Verified
from schedkit.oci.errors import Intercepted, NotFound, Refused, RegistryError, Unreachable
from schedkit.oci.policy.verdict_cache import (
    Verdicts,
    beliefs,
    believe_kept,
    default_folder,
    verify_once,
)
from schedkit.sked.trust.messages import attest, believe_process

NOBODY = 65534
VERIFIER = (
    "schedkit.oci.sigstore.verify",
    "schedkit.oci.sigstore.ed25519ph",
    "schedkit.oci.policy.patterns",
)  # the second is loaded when it is needed, and the last is handed over with the policy
RECORDED = Path(__file__).parents[3] / "golden/verifier.yaml"


@pytest.fixture(scope="module")
def made() -> Made:
    return Workshop().make(Recipe())


@pytest.fixture
def verdicts(tmp_path: Path) -> Verdicts:
    return Verdicts(tmp_path / "verdicts")


class Outage(Shelf):
    """A registry that cannot be reached."""

    def resolve(self, reference: Reference) -> Content:
        raise Unreachable(f"{reference} cannot be reached")


def kept(verdicts: Verdicts, made: Made) -> Verified:
    """A verdict, reached and kept."""
    return verify_once(verdicts, made.shelf, made.reference, by_identity(made), made.root)


def again(verdicts: Verdicts, made: Made, policy: TrustPolicy | None = None) -> Verified:
    """The same question by digest, while the registry is away."""
    pinned = made.reference.pinned(made.digest)
    return verify_once(verdicts, Outage(), pinned, policy or by_identity(made), made.root)


def test_a_verdict_outlives_an_outage(verdicts: Verdicts, made: Made) -> None:
    first = kept(verdicts, made)

    assert again(verdicts, made) == first


def test_without_a_verdict_an_outage_is_an_outage(verdicts: Verdicts, made: Made) -> None:
    with pytest.raises(Unreachable):
        again(verdicts, made)


class Lying(Shelf):
    """A registry whose answers are invalid."""

    def resolve(self, reference: Reference) -> Content:
        raise Refused(f"{reference} is something else")


def test_an_answer_that_is_no_good_is_refused_at_the_step_for_it(verdicts: Verdicts, made: Made) -> None:
    with pytest.raises(Refusal) as refused:
        verify_once(verdicts, Lying(), made.reference, by_identity(made), made.root)

    assert refused.value.step is Step.DIGEST


class Proxied(Shelf):
    """A registry behind a proxy that answers one kind of question in its place."""

    def __init__(self, made: Made, kept_back: str, said: RegistryError) -> None:
        super().__init__()
        self.made, self.kept_back, self.said = made, kept_back, said

    def resolve(self, reference: Reference) -> Content:
        self._ask("image" if reference == self.made.reference else "signature")
        return self.made.shelf.resolve(reference)

    def referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        self._ask("referrers")
        return self.made.shelf.referrers(repository, digest)

    def blob(self, repository: Repository, descriptor: Descriptor, *, limit: int) -> bytes:
        self._ask("blob")
        return self.made.shelf.blob(repository, descriptor, limit=limit)

    def _ask(self, question: str) -> None:
        if question == self.kept_back:
            raise self.said


@pytest.mark.parametrize("question", ["image", "referrers", "signature", "blob"])
def test_a_proxy_that_answers_in_the_registrys_place_is_no_word_about_the_image(
    verdicts: Verdicts, made: Made, question: str
) -> None:
    behind = Proxied(made, question, Intercepted("a page"))

    with pytest.raises(Intercepted):
        verify_once(verdicts, behind, made.reference, by_identity(made), made.root)


def test_what_may_be_a_proxys_page_in_the_place_of_signatures_is_told(verdicts: Verdicts) -> None:
    tagged = Workshop().make(Recipe(simple=True))
    behind = Proxied(tagged, "signature", NotFound("a page", is_hearsay=True))

    with pytest.raises(Refusal, match="cannot be used: a page") as refused:
        verify_once(verdicts, behind, tagged.reference, by_identity(tagged), tagged.root)

    assert refused.value.step is Step.EVIDENCE


def test_a_tag_needs_the_registry_but_not_the_evidence(verdicts: Verdicts, made: Made) -> None:
    first = kept(verdicts, made)
    bare = Shelf()
    bare.manifests, bare.named = made.shelf.manifests, made.shelf.named

    assert verify_once(verdicts, bare, made.reference, by_identity(made), made.root) == first


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda policy: msgspec.structs.replace(policy, rule=Rule()), id="the signers"),
        pytest.param(lambda policy: msgspec.structs.replace(policy, log_url="https://a.test"), id="the log"),
        pytest.param(
            lambda policy: msgspec.structs.replace(policy, repositories={"a.test": policy.rule}),
            id="a rule elsewhere",
        ),
    ],
)
def test_another_policy_wants_another_verdict(
    verdicts: Verdicts, made: Made, change: Callable[[TrustPolicy], TrustPolicy]
) -> None:
    kept(verdicts, made)

    with pytest.raises(Unreachable):
        again(verdicts, made, change(by_identity(made)))


def test_another_trusted_root_wants_another_verdict(made: Made) -> None:
    policy = by_identity(made)

    assert beliefs(policy, made.root) != beliefs(policy, made.root + b" ")


def test_a_release_that_does_not_change_the_verifier_ends_no_verdict() -> None:
    script = (
        "import schedkit; schedkit.__version__ = '9.9.9'\n"
        "from schedkit.oci.policy.verdict_cache import TrustPolicy, beliefs\n"
        "print(beliefs(TrustPolicy(), b''))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == beliefs(TrustPolicy(), b"")


def test_another_revision_of_the_verifier_wants_another_verdict(
    monkeypatch: pytest.MonkeyPatch, verdicts: Verdicts, made: Made
) -> None:
    kept(verdicts, made)
    monkeypatch.setattr("schedkit.oci.policy.verdict_cache.REVISION", REVISION + 1)

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_whoever_changes_the_verifier_raises_its_revision() -> None:
    """All of ours that is loaded with it decides verdicts; what is said about the code does not count."""
    recorded = yaml.safe_load(RECORDED.read_text())

    found = {"revision": REVISION, "source": _fingerprint(_sources_of(*VERIFIER))}

    assert found == recorded, (
        "what decides verdicts has changed: raise REVISION in src/schedkit/model/trust/steps.py, so that"
        f" those of before end, and write what this test then finds into {RECORDED.name}"
    )


def test_a_comment_changes_no_verdict_and_any_statement_may() -> None:
    code = 'def f():\n    """What it does."""\n    return 1\n'

    assert _statements(code) == _statements(f"# why\n\n{code.replace('What', 'All that')}")
    assert _statements(code) != _statements(code.replace("1", "2"))


def _sources_of(*modules: str) -> list[Path]:
    """The files of ours that are loaded with them."""
    script = (
        f"import sys, {', '.join(modules)}\n"
        "for name, one in sys.modules.items(): name.startswith('schedkit.') and print(one.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return sorted(map(Path, done.stdout.split()))


def _fingerprint(sources: list[Path]) -> str:
    told = sorted(each for file in sources for each in _statements(file.read_text()))
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _statements(code: str) -> list[str]:
    """Of the whole module, without imports, comments, and texts that nobody reads but people.

    Where a statement stands does not count either: modules may be moved, split and merged.
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [each for each in body if not _says_nothing(each)]  # type: ignore[attr-defined]
    return [ast.dump(each) for each in tree.body]


def _says_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@pytest.mark.parametrize("days", [-31, 1])
def test_a_verdict_that_is_old_or_of_tomorrow_is_not_believed(
    verdicts: Verdicts, made: Made, days: int
) -> None:
    kept(verdicts, made)
    (file,) = verdicts.folder.iterdir()
    fields = json.loads(file.read_bytes())
    fields["reached"] = (dt.datetime.now(dt.UTC) + dt.timedelta(days=days)).isoformat()
    file.write_text(json.dumps(fields))

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_only_so_many_verdicts_are_kept_and_the_newest_of_them(verdicts: Verdicts, made: Made) -> None:
    verdicts.folder.mkdir(mode=0o700)
    for number in range(MOST_FILES):
        (verdicts.folder / f"{number}.json").touch()
        os.utime(verdicts.folder / f"{number}.json", (number, number))

    first = kept(verdicts, made)

    assert again(verdicts, made) == first
    assert len(list(verdicts.folder.iterdir())) == MOST_FILES
    assert not (verdicts.folder / "0.json").exists()


def test_a_trusted_root_that_is_none_is_a_refusal(verdicts: Verdicts, made: Made) -> None:
    with pytest.raises(Refusal) as refused:
        verify_once(verdicts, made.shelf, made.reference, by_identity(made), b"{}")

    assert refused.value.step is Step.RULE


def test_a_verdict_is_believed_about_what_it_was_reached_for(verdicts: Verdicts, made: Made) -> None:
    verified, believed = kept(verdicts, made), beliefs(by_identity(made), made.root)
    [file] = verdicts.folder.glob("*.json")
    data = file.read_bytes()

    assert believe_kept(data, made.digest, verified.repository, believed) == verified
    assert believe_kept(data, made.digest, verified.repository, "something else") is None
    assert believe_kept(data, made.digest, "registry.example/another", believed) is None


def test_a_verdict_can_be_handed_to_the_process_that_asked(verdicts: Verdicts, made: Made) -> None:
    verified = kept(verdicts, made)
    sent, repository = attest(verified), verified.repository

    assert believe_process(sent, repository=repository, wanted=None) == verified
    assert believe_process(sent, repository=repository, wanted=str(made.digest)) == verified
    assert believe_process(sent, repository="registry.example/another", wanted=None) is None
    assert believe_process(sent, repository=repository, wanted="sha256:" + "0" * 64) is None


def test_another_repository_wants_another_verdict(verdicts: Verdicts, made: Made) -> None:
    verified = kept(verdicts, made)
    believed = beliefs(by_identity(made), made.root)

    assert verdicts.find(made.digest, verified.repository, believed) == verified
    assert verdicts.find(made.digest, f"{verified.repository}/other", believed) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[" * 9999, b'{"digest": 1}', b'{"digest": "\xff"}'])
def test_a_verdict_that_cannot_be_read_is_ignored(verdicts: Verdicts, made: Made, data: bytes) -> None:
    kept(verdicts, made)
    (file,) = verdicts.folder.iterdir()
    file.write_bytes(data)

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_a_verdict_under_another_name_is_ignored(verdicts: Verdicts, made: Made) -> None:
    """Renaming one verdict to the name of another does not make it one."""
    kept(verdicts, made)
    (file,) = verdicts.folder.iterdir()
    file.write_bytes(file.read_bytes().replace(made.digest.encode(), b"sha256:" + b"0" * 64))

    with pytest.raises(Unreachable):
        again(verdicts, made)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_believed(verdicts: Verdicts, made: Made, mode: int) -> None:
    kept(verdicts, made)
    verdicts.folder.chmod(mode)

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_a_folder_below_one_that_others_can_write_to_is_not_believed(tmp_path: Path, made: Made) -> None:
    verdicts = Verdicts(tmp_path / "shared" / "verdicts")
    kept(verdicts, made)
    (tmp_path / "shared").chmod(0o777)

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_a_file_that_others_can_write_to_is_not_believed(verdicts: Verdicts, made: Made) -> None:
    kept(verdicts, made)
    (file,) = verdicts.folder.iterdir()
    file.chmod(0o666)

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_a_link_is_not_followed(tmp_path: Path, made: Made) -> None:
    kept(Verdicts(tmp_path / "real"), made)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(Unreachable):
        again(Verdicts(tmp_path / "link"), made)


@pytest.mark.parametrize("part", ["folder", "file"])
def test_what_belongs_to_somebody_else_is_not_believed(verdicts: Verdicts, made: Made, part: str) -> None:
    if os.geteuid() != 0:
        raise Unavailable("a folder of somebody else", "only root can give one away", "run it as root")
    kept(verdicts, made)
    (file,) = verdicts.folder.iterdir()
    os.chown(verdicts.folder if part == "folder" else file, NOBODY, NOBODY)

    with pytest.raises(Unreachable):
        again(verdicts, made)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, made: Made) -> None:
    (tmp_path / "file").write_text("in the way")

    assert kept(Verdicts(tmp_path / "file" / "verdicts"), made).digest == made.digest


def test_verdicts_are_in_the_users_cache() -> None:
    home = Path("/home/somebody")

    assert default_folder({}, home) == home / ".cache/schedkit/verdicts"
    assert default_folder({"XDG_CACHE_HOME": "/var/cache"}, home) == Path("/var/cache/schedkit/verdicts")
    assert default_folder({"XDG_CACHE_HOME": "relative"}, home) == home / ".cache/schedkit/verdicts"


def test_a_kept_verdict_is_found_without_loading_cryptography_or_yaml() -> None:
    """Either would take longer than everything else."""
    names = (
        "schedkit.oci.policy.file_cache, schedkit.oci.policy.dated_root, schedkit.oci.policy.verdict_cache"
    )
    program = f"import sys, {names}; sys.exit(not {{'cryptography', 'yaml'}}.isdisjoint(sys.modules))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
