"""The administrator's rules in their folder: which file counts, and what if it is wrong, gone or moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from rig.base import polling
from rig.operator.trustrules import MountedRules
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.model.trust.rules import TrustMode, built_in_rules
from schedkit.oci.policy.files import read_with
from schedkit.oci.policy.patterns import Re2Pattern
from schedkit.sked.cache import Cluster
from schedkit.sked.http.metrics import Metrics
from schedkit.sked.trust import rules_process
from schedkit.sked.trust.confined import BrokenOffError
from schedkit.sked.trust.messages import Reading
from schedkit.sked.trust.rules_folder import RuleFolder


def look(folder: RuleFolder) -> None:
    asyncio.run(folder.look())


async def read_here(file: Path) -> Reading:
    """As the process that a manager starts, which takes a second."""
    return rules_process.read(file)


def looked(
    place: Path | None,
    floor: TrustMode = TrustMode.OFF,
    *,
    default: TrustMode = TrustMode.OFF,
    gone_s: float = 60,
) -> RuleFolder:
    """After its first look."""
    folder = RuleFolder(place, floor, read_here, default=default, gone_s=gone_s)
    look(folder)
    return folder


@pytest.fixture
def mounted(tmp_path: Path) -> MountedRules:
    return MountedRules(tmp_path / "rules")


POLICY = b"mode: enforce\npolicy: {keys: [{path: a.pub}]}\n"
ONE, TWO = (
    b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA" + digits + b"=\n-----END PUBLIC KEY-----\n"
    for digits in (b"A" * 43, b"B" * 42 + b"A")
)


def test_rules_are_read_again_when_the_folder_is_swapped_and_the_last_good_ones_stay(
    mounted: MountedRules,
) -> None:
    mounted.write({"rules.yaml": POLICY, "a.pub": ONE})
    folder, news = looked(mounted.folder, TrustMode.OFF), []
    folder.listen(lambda: news.append((folder.rules, folder.complaint)))
    assert folder.rules is not None
    first = folder.rules

    look(folder)
    assert news == []
    mounted.write({"rules.yaml": POLICY, "a.pub": b"no key"})
    look(folder)
    mounted.write({"rules.yaml": POLICY, "a.pub": TWO})
    look(folder)

    (stale, complaint), (changed, nothing) = news
    assert (stale, "the key a.pub cannot be used" in complaint) == (first, True)
    assert changed is not None
    assert (changed.fingerprint != first.fingerprint, nothing) == (True, ""), "another key is another policy"


def test_rules_and_keys_are_those_of_one_version(mounted: MountedRules) -> None:
    mounted.write({"rules.yaml": POLICY, "a.pub": ONE})

    def swap_between(document: object, read_named: Callable[[str], bytes]) -> tuple[object, bytes]:
        mounted.write({"rules.yaml": b"mode: warn\n", "a.pub": TWO})
        return document, read_named("a.pub")

    file = mounted.folder / "rules.yaml"
    document, key = read_with(file, swap_between, rules_process.of_one_version(mounted.folder))

    assert (document, key) == (yaml.safe_load(POLICY), ONE)


@pytest.mark.parametrize(
    ("name", "key"), [("../keys/a.pub", ONE), ("keys/a.pub", TWO), ("..data/a.pub", ONE), ("a.pub", ONE)]
)
def test_files_may_lie_in_other_volumes_than_the_rules_that_name_them(
    mounted: MountedRules, name: str, key: bytes
) -> None:
    mounted.write({"rules.yaml": b"policy: {keys: [{path: " + name.encode() + b"}]}\n", "a.pub": ONE})
    for volume, content in ((mounted.folder.parent / "keys", ONE), (mounted.folder / "keys", TWO)):
        volume.mkdir()
        (volume / "a.pub").write_bytes(content)

    assert rules_process.read(mounted.folder / "rules.yaml").files == {name: key}


def test_a_reader_that_breaks_off_is_a_complaint_and_the_next_look_another_try(mounted: MountedRules) -> None:
    mounted.write({"rules.yaml": b"mode: warn\n"})
    ends = [BrokenOffError("it was ended by signal 9")]

    async def read_at_the_second_try(file: Path) -> Reading:
        if ends:
            raise ends.pop()
        return await read_here(file)

    folder = RuleFolder(mounted.folder, TrustMode.OFF, read_at_the_second_try)
    look(folder)
    assert (folder.rules, "failed: it was ended by signal 9" in folder.complaint) == (None, True)

    look(folder)
    assert folder.rules is not None
    assert (folder.rules.mode, folder.complaint) == (TrustMode.WARN, "")


@pytest.mark.parametrize("policy", [b"{trustedRoot: .}", b"{keys: [{path: ./}]}"], ids=repr)
def test_a_policy_that_names_its_own_folder_as_a_file_is_told_so(
    mounted: MountedRules, policy: bytes
) -> None:
    mounted.write({"rules.yaml": b"policy: " + policy + b"\n"})

    assert "Is a directory" in rules_process.read(mounted.folder / "rules.yaml").complaint


@pytest.mark.parametrize("broken", [b"mode: enforce\nmode: warn\n", b"[", POLICY], ids=repr)
def test_what_cannot_be_used_is_told_with_its_place(broken: bytes, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_bytes(broken)

    assert str(tmp_path / "rules.yaml") in rules_process.read(tmp_path / "rules.yaml").complaint


def test_without_a_file_the_floor_counts_and_from_the_start_malformed_there_are_none(
    mounted: MountedRules, tmp_path: Path
) -> None:
    for nothing in (None, tmp_path / "nowhere", mounted.folder):
        rules = looked(nothing, TrustMode.WARN).rules
        assert rules is not None
        assert rules.mode is TrustMode.WARN

    mounted.write({"rules.yaml": b"mode: on\n"})
    folder = looked(mounted.folder, TrustMode.WARN)
    assert folder.rules is None
    assert "write off, warn or enforce" in folder.complaint


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"rules.yml": b"mode: enforce\n", "a.pub": b""}, "has no rules.yaml, only a.pub, rules.yml"),
        ({"rules.yaml": b""}, "is empty"),
        ({"rules.yaml": b"# mode: enforce\n"}, "is empty"),
    ],
    ids=["another name", "empty", "a comment"],
)
def test_a_slip_in_the_name_of_the_rules_or_no_word_in_them_opens_nothing(
    mounted: MountedRules, files: dict[str, bytes], words: str
) -> None:
    mounted.write({"rules.yaml": b"mode: enforce\n"})
    folder = looked(mounted.folder, TrustMode.OFF)
    mounted.write(files)
    look(folder)

    assert folder.rules is not None
    assert folder.rules.mode is TrustMode.ENFORCE
    assert words in folder.complaint
    assert looked(mounted.folder, TrustMode.OFF).rules is None, "a manager that starts does not guess either"


def test_rules_that_become_less_strict_are_a_warning_in_the_log(mounted: MountedRules) -> None:
    mounted.write({"rules.yaml": b"mode: enforce\n"})
    folder = looked(mounted.folder, TrustMode.OFF)

    with capture_logs() as lines:
        for mode in (b"warn", b"enforce"):
            mounted.write({"rules.yaml": b"mode: " + mode + b"\n"})
            look(folder)

    assert [line["log_level"] for line in lines] == ["warning", "info"]


def mode_of(folder: RuleFolder) -> TrustMode:
    assert folder.rules is not None
    return folder.rules.mode


@pytest.mark.parametrize(
    ("floor", "default", "mode"),
    [("off", "warn", "warn"), ("off", "enforce", "enforce"), ("enforce", "warn", "enforce")],
)
def test_where_nobody_wrote_rules_the_stricter_of_floor_and_default_counts(
    mounted: MountedRules, floor: str, default: str, mode: str
) -> None:
    for nothing in (None, mounted.folder):
        assert mode_of(looked(nothing, TrustMode(floor), default=TrustMode(default))) == mode


@pytest.mark.parametrize("written", [b"mode: off\n", b"{}\n", b"allowedNamespaces: [a]\n"], ids=repr)
@pytest.mark.parametrize("name", ["rules.yaml", "trust.yaml"])
def test_where_somebody_wrote_rules_no_default_makes_them_stricter(
    mounted: MountedRules, name: str, written: bytes
) -> None:
    mounted.write({name: written})

    assert mode_of(looked(mounted.folder, default=TrustMode.ENFORCE)) is TrustMode.OFF
    assert mode_of(looked(mounted.folder, TrustMode.WARN, default=TrustMode.ENFORCE)) is TrustMode.WARN


def test_rules_without_a_mode_are_a_warning_where_they_loosen_what_counted_without_them(
    mounted: MountedRules,
) -> None:
    mounted.write({"rules.yaml": b"allowedNamespaces: [a]\n"})

    with capture_logs() as lines:
        for default in (TrustMode.OFF, TrustMode.WARN):
            looked(mounted.folder, default=default)

    (line,) = (line for line in lines if line["event"] == "trust_rules_without_mode")
    assert "has no mode: off applies; warn would apply only if there were no rules" in line["reason"]


def test_rules_are_read_under_their_old_name_until_they_are_moved(mounted: MountedRules) -> None:
    mounted.write({"trust.yaml": POLICY, "a.pub": ONE})
    folder = looked(mounted.folder)
    assert folder.rules is not None
    old = folder.rules
    assert (old.mode, old.place) == (TrustMode.ENFORCE, "trust.yaml of ConfigMap sked-trust")

    mounted.write({"rules.yaml": POLICY, "a.pub": ONE})
    look(folder)

    assert (folder.rules, folder.complaint) == (replace(old, place="rules.yaml of ConfigMap sked-rules"), "")


def test_both_names_at_once_change_nothing_and_are_told_with_the_way_out(mounted: MountedRules) -> None:
    mounted.write({"trust.yaml": b"mode: enforce\n"})
    folder = looked(mounted.folder)
    before = folder.rules

    mounted.write({"trust.yaml": b"mode: enforce\n", "rules.yaml": b"mode: off\n"})
    look(folder)

    assert folder.rules == before
    assert "both exist" in folder.complaint
    assert "then delete trust.yaml" in folder.complaint
    assert looked(mounted.folder).rules is None, "a manager that starts does not choose either"

    mounted.write({"rules.yaml": b"mode: warn\n"})
    look(folder)
    assert (mode_of(folder), folder.complaint) == (TrustMode.WARN, "")


def test_rules_that_are_gone_for_a_moment_count_on(mounted: MountedRules) -> None:
    """As those of a ConfigMap that is deleted and made anew, under either name."""
    mounted.write({"trust.yaml": b"mode: enforce\n"})
    folder = looked(mounted.folder, default=TrustMode.WARN)

    for _ in range(2):
        mounted.write({})
        look(folder)
        assert mode_of(folder) is TrustMode.ENFORCE
        assert (
            "trust.yaml of ConfigMap sked-trust is gone; its rules apply for 60 s after it disappeared"
            in folder.complaint
        )

    mounted.write({"rules.yaml": b"mode: enforce\nallowedNamespaces: [a]\n"})
    look(folder)
    assert folder.rules is not None
    assert (folder.rules.allowed_namespaces, folder.complaint) == (("a",), "")


def complaint(folder: RuleFolder) -> str:
    look(folder)
    return folder.complaint


def test_rules_that_stay_away_leave_the_default_and_a_warning(mounted: MountedRules) -> None:
    mounted.write({"rules.yaml": b"mode: warn\nallowedNamespaces: [a]\n"})
    folder, news = looked(mounted.folder, default=TrustMode.WARN, gone_s=0.2), []
    folder.listen(lambda: news.append(folder.complaint))
    mounted.write({})

    with capture_logs() as lines:
        look(folder)
        polling.until(lambda: complaint(folder) == "", "they are given up")

    assert folder.rules == built_in_rules(TrustMode.WARN, Re2Pattern)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("trust_rules_gone", "error"),
        ("trust_rules_read", "warning"),  # though the mode is the same: the lists are gone
    ]
    assert len(news) == 2
    look(folder)
    assert len(news) == 2, "and nothing is read anew for ever"


def test_a_key_that_does_nothing_is_a_line_in_the_log(mounted: MountedRules) -> None:
    mounted.write({"rules.yaml": b"priorityCeiling: 10\n"})

    with capture_logs() as lines:
        looked(mounted.folder)

    (line,) = (line for line in lines if line["event"] == "trust_rules_unused_setting")
    assert line["reason"] == "priorityCeiling in rules.yaml of ConfigMap sked-rules does nothing yet"


def test_the_metrics_page_says_whether_the_rules_of_now_count(mounted: MountedRules) -> None:
    mounted.write({"rules.yaml": b"mode: on\n"})

    async def page(folder: RuleFolder) -> str:
        await folder.look()
        metrics = Metrics()
        async with Client(Connection("http://127.0.0.1:9")) as client:
            metrics.watch(Cluster(client), (), folder)
            return generate_latest(metrics.registry).decode()

    broken = asyncio.run(page(RuleFolder(mounted.folder, TrustMode.OFF, read_here)))
    good = asyncio.run(page(RuleFolder(None, TrustMode.WARN)))

    assert 'sked_trust_rules_readable{mode="unknown"} 0.0' in broken
    assert 'sked_trust_rules_readable{mode="warn"} 1.0' in good
    assert 'sked_trust_rules_written{place="nowhere"} 1.0' in good
    mounted.write({"rules.yaml": b"mode: warn\n"})
    written = asyncio.run(page(RuleFolder(mounted.folder, TrustMode.OFF, read_here)))
    assert 'sked_trust_rules_written{place="rules.yaml of ConfigMap sked-rules"} 1.0' in written
