"""Archives move: which of the kernels on offer a run takes, and what it says when none keeps a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from rig.base.errors import RigError, Unavailable
from rig.build.debian import Package
from rig.guest import kernels
from rig.guest.kernels import KINDS, NotOffered, Offer

FULL_SIZE, STUB_SIZE = 40_000_000, 1_500
Fetch = Callable[[Offer], Path]


def package(name: str, size: int = FULL_SIZE) -> Package:
    return Package(name, "1", size)


def offer(release: str, suite: str = "sid") -> Offer:
    (found,) = kernels.offers_in([package(f"linux-image-{release}-cloud-amd64")], suite)
    return found


def releases(offers: Iterable[Offer]) -> list[str]:
    return [each.release.removesuffix("-cloud-amd64") for each in offers]


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """Fetches kernels as Debian configures them: backports and newer have sched_ext, stable has not."""

    def unpack(wanted: Offer) -> Path:
        folder = tmp_path / wanted.release
        folder.mkdir()
        has_it = wanted.suite not in {"trixie", "bookworm", "bookworm-backports"}
        setting = "CONFIG_SCHED_CLASS_EXT=y" if has_it else "# CONFIG_SCHED_CLASS_EXT is not set"
        (folder / "config").write_text(f"CONFIG_BPF=y\n{setting}\n")
        return folder

    return unpack


def test_an_image_that_holds_its_kernel_is_an_offer() -> None:
    (found,) = kernels.offers_in([package("linux-image-6.18.15+deb13-cloud-amd64")], "trixie-backports")

    assert found.version == (6, 18, 15)
    assert found.release == "6.18.15+deb13-cloud-amd64"
    assert found.suite == "trixie-backports"
    assert found.packages == ("linux-image-6.18.15+deb13-cloud-amd64",)


def test_a_kernel_in_several_packages_is_an_offer_of_them_all_without_the_stub() -> None:
    parts = ("base", "binary", "modules")
    names = [f"linux-{part}-7.2.13+deb14-cloud-amd64" for part in parts]
    stub = package("linux-image-7.2.13+deb14-cloud-amd64", STUB_SIZE)

    (found,) = kernels.offers_in([stub, *map(package, names)], "sid")

    assert found.packages == tuple(names)


@pytest.mark.parametrize("missing", ["base", "binary", "modules"])
def test_a_stub_whose_packages_vanished_is_no_offer(missing: str) -> None:
    parts = [part for part in ("base", "binary", "modules") if part != missing]
    packages = [package(f"linux-{part}-7.2.13+deb14-cloud-amd64") for part in parts]
    packages.append(package("linux-image-7.2.13+deb14-cloud-amd64", STUB_SIZE))

    assert kernels.offers_in(packages, "sid") == []


@pytest.mark.parametrize(
    "name",
    ["linux-image-cloud-amd64", "linux-image-6.18.15+deb13-amd64", "linux-image-6.18.15-cloud-amd64-dbg"],
    ids=["a metapackage", "another flavour", "debug symbols"],
)
def test_other_packages_are_no_offers(name: str) -> None:
    assert kernels.offers_in([package(name)], "sid") == []


def test_the_newest_of_the_right_major_comes_first_by_number_not_by_letter() -> None:
    offers = [offer("7.2.9"), offer("6.18.15"), offer("7.10.1"), offer("7.2.13")]

    assert releases(kernels.rank(KINDS["7"], offers)) == ["7.10.1", "7.2.13", "7.2.9", "6.18.15"]


def test_the_preferred_suite_comes_before_a_newer_kernel_elsewhere() -> None:
    offers = [offer("6.19.2", "sid"), offer("6.18.15", "trixie-backports"), offer("6.18.20", "forky")]

    assert releases(kernels.rank(KINDS["6"], offers)) == ["6.18.15", "6.18.20", "6.19.2"]


def test_of_two_stand_ins_the_one_that_runs_real_schedulers_comes_first() -> None:
    offers = [offer("7.2.12", "trixie-backports"), offer("7.1.3", "sid")]

    assert releases(kernels.rank(KINDS["6"], offers)) == ["7.1.3", "7.2.12"]


def test_any_major_without_sched_ext_will_do() -> None:
    offers = [offer("5.10.9", "trixie"), offer("6.1.0", "bookworm")]

    assert releases(kernels.rank(KINDS["none"], offers)) == ["5.10.9", "6.1.0"]


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        pytest.param("6", offer("6.18.15", "trixie-backports"), id="6.x from its first suite"),
        pytest.param("6", offer("6.19.1", "sid"), id="6.x from its last suite"),
        pytest.param("7", offer("7.2.13", "sid"), id="7.x from its first suite"),
        pytest.param("7", offer("7.2.13", "forky"), id="7.x from another suite with sound BTF"),
        pytest.param("none", offer("6.12.107", "trixie"), id="without sched_ext"),
        pytest.param("none", offer("6.1.0-40", "bookworm"), id="without sched_ext, older"),
    ],
)
def test_a_kernel_that_keeps_the_promise_needs_no_note(kind: str, kept: Offer) -> None:
    assert kernels.note(KINDS[kind], kept) is None


@pytest.mark.parametrize(
    ("kind", "stand_in", "flaws"),
    [
        pytest.param("6", offer("7.2.13", "sid"), "it is a 7.x", id="another major"),
        pytest.param(
            "7",
            offer("7.2.12", "trixie-backports"),
            "its malformed BTF keeps real schedulers from loading",
            id="the right major from a suite that breaks the promise",
        ),
        pytest.param(
            "6",
            offer("7.2.12", "trixie-backports"),
            "it is a 7.x and its malformed BTF keeps real schedulers from loading",
            id="both",
        ),
    ],
)
def test_a_stand_in_is_named_with_what_is_wrong_about_it(kind: str, stand_in: Offer, flaws: str) -> None:
    named = f"{stand_in.release} from {stand_in.suite} stands in, but {flaws}"

    assert kernels.note(KINDS[kind], stand_in) == (
        f"kernel kind {kind} (a {kind}.x that attaches real schedulers) is not to be had: {named}"
    )


def test_a_kind_that_is_offered_is_chosen_without_a_word(fetch: Fetch) -> None:
    kernel = kernels.choose(KINDS["7"], [offer("6.18.15", "trixie-backports"), offer("7.2.13")], fetch, [])

    assert (kernel.kind, kernel.release, kernel.note) == ("7", "7.2.13-cloud-amd64", None)
    assert kernel.description == "kernel kind 7: 7.2.13-cloud-amd64"


def test_a_kind_that_vanished_is_replaced_by_the_nearest_which_names_itself(fetch: Fetch) -> None:
    kernel = kernels.choose(KINDS["6"], [offer("8.1.1", "sid"), offer("7.2.13", "forky")], fetch, [])

    assert kernel.release == "7.2.13-cloud-amd64"
    assert "kernel kind 6 " in kernel.description
    assert "7.2.13-cloud-amd64 from forky stands in" in kernel.description


def test_the_name_does_not_prove_sched_ext_the_configuration_does(fetch: Fetch) -> None:
    kind = kernels.Kind("6", "a 6.x", True, 6, ("trixie", "sid"))

    kernel = kernels.choose(kind, [offer("6.12.107", "trixie"), offer("6.18.1", "sid")], fetch, [])

    assert kernel.release == "6.18.1-cloud-amd64"


def test_what_cannot_be_fetched_is_passed_over_and_told(fetch: Fetch) -> None:
    troubles: list[RigError | Unavailable] = []

    def fetch_old_ones(wanted: Offer) -> Path:
        if wanted.version > (7, 2, 12):
            raise RigError("404 not found")
        return fetch(wanted)

    kernel = kernels.choose(KINDS["7"], [offer("7.2.13"), offer("7.2.12")], fetch_old_ones, troubles)

    assert kernel.release == "7.2.12-cloud-amd64"
    assert [str(trouble) for trouble in troubles] == ["404 not found"]


@pytest.mark.parametrize("kind", ["6", "7"])
def test_no_sched_ext_kernel_at_all_is_an_error(kind: str, fetch: Fetch) -> None:
    with pytest.raises(Unavailable, match="no kernel with sched_ext in ") as caught:
        kernels.choose(KINDS[kind], [], fetch, [])

    assert not isinstance(caught.value, NotOffered)


def test_no_kernel_without_sched_ext_is_the_way_of_the_world(fetch: Fetch) -> None:
    """With sched_ext none could stand in; the difference lets a run go on without these tests."""
    with pytest.raises(NotOffered, match="no kernel without sched_ext in trixie, "):
        kernels.choose(KINDS["none"], [], fetch, [])


def test_an_archive_that_does_not_answer_is_not_the_way_of_the_world(fetch: Fetch) -> None:
    silent = Unavailable("Debian trixie", "its package lists cannot be fetched", "look at the network")

    with pytest.raises(Unavailable, match="package lists cannot be fetched") as caught:
        kernels.choose(KINDS["none"], [], fetch, [silent])

    assert not isinstance(caught.value, NotOffered)


def test_a_guest_takes_the_kernel_that_the_host_hands_in_without_asking_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(KINDS, "7", replace(KINDS["7"], suites=()))
    booted = kernels.Kernel("7", "7.2.13", tmp_path / "schedkit/kernel/7.2.13", "it stands in for another")
    with pytest.raises(Unavailable, match="no kernel with sched_ext"):
        kernels.obtain("7")

    for name, value in kernels.environment_for_guest(booted).items():
        monkeypatch.setenv(name, value)

    assert kernels.obtain("7") == booted


def test_an_archive_that_answers_nonsense_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An apt that fails is trouble with one suite, not the end of the run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(KINDS, "7", replace(KINDS["7"], suites=("sid",)))
    suite = tmp_path / "schedkit" / "apt" / "sid"
    suite.mkdir(parents=True)
    (suite / "refreshed").touch()
    (suite / "sources.list").write_text("nonsense\n")

    with pytest.raises(
        Unavailable, match=r"kernel kind 7: none could be fetched: `apt-cache .* ended with 100"
    ):
        kernels.obtain("7")
