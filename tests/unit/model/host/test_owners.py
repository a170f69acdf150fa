"""Who owns the attached scheduler: each way to be sure, and each way not to be."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from schedkit.model.host.holders import HeldLink, HeldMap, HeldObjects, SchedulerMap, leftovers, prove
from schedkit.model.host.processes import Hold, Place, Process, is_in_container, place_of, pod_named
from schedkit.model.kernel.sched_ext import KernelState, State

ID = "5e1f" * 16
OTHER_ID = "c0de" * 16
UID = "0d5b1c2e-8a9f-4c11-9c1e-1234567890ab"
UID_ = UID.replace("-", "_")
RUNNING = KernelState(State.ENABLED, ops="mini", enable_seq=2)


def evidence(
    *held: HeldLink | HeldMap, schedulers: list[SchedulerMap], gaps: tuple[str, ...] = ()
) -> HeldObjects:
    """Each holder is a process of its own."""
    return HeldObjects(
        processes=tuple(Process(pid, cgroups=(f"/{pid}",)) for pid in sorted({each.pid for each in held})),
        links=tuple(each for each in held if isinstance(each, HeldLink)),
        maps=tuple(each for each in held if isinstance(each, HeldMap)),
        schedulers=tuple(schedulers),
        gaps=gaps,
    )


def answer(found: HeldObjects, kernel: KernelState = RUNNING) -> tuple[Hold, int | None]:
    proof = prove(kernel, found)
    return proof.hold, proof.process.pid if proof.process else None


def test_the_holder_of_the_link_is_the_owner() -> None:
    found = evidence(HeldLink(7, 1, 10), HeldMap(7, 10), schedulers=[SchedulerMap(10, "mini")])

    assert answer(found) == (Hold.LINK, 7)


def test_an_ejected_holder_of_the_same_name_is_not_the_owner() -> None:
    """The one with the higher link was attached later, and attaching needs a kernel that runs no other."""
    same = [SchedulerMap(10, "mini"), SchedulerMap(11, "mini")]

    assert answer(evidence(HeldLink(9, 4, 10), HeldLink(7, 5, 11), schedulers=same)) == (Hold.LINK, 7)


def test_a_higher_map_number_means_nothing() -> None:
    """A scheduler may be loaded long before it is attached."""
    same = [SchedulerMap(10, "mini"), SchedulerMap(11, "mini")]

    assert answer(evidence(HeldLink(7, 5, 10), HeldLink(9, 4, 11), schedulers=same)) == (Hold.LINK, 7)


def test_an_ejected_holder_of_another_name_is_ruled_out_by_it() -> None:
    both = [SchedulerMap(10, "mini", is_registered=True), SchedulerMap(11, "other")]

    assert answer(evidence(HeldLink(9, 4, 11), schedulers=both)) == (Hold.NOBODY, None)


def test_other_kinds_of_struct_ops_do_not_count() -> None:
    """TCP's link is newer, but its map is none of sched_ext."""
    found = evidence(HeldLink(7, 1, 10), HeldLink(8, 2, 11), schedulers=[SchedulerMap(10, "mini")])

    assert answer(found) == (Hold.LINK, 7)


def test_a_sub_scheduler_is_not_the_owner_of_the_machine() -> None:
    both = [SchedulerMap(10, "mini"), SchedulerMap(11, "mini", is_sub=True)]

    assert answer(evidence(HeldLink(7, 1, 10), HeldLink(8, 2, 11), schedulers=both)) == (Hold.LINK, 7)


def test_one_that_is_loaded_and_waits_for_its_turn_is_not_the_owner() -> None:
    both = [SchedulerMap(10, "mini"), SchedulerMap(11, "mini")]
    found = evidence(HeldLink(7, 3, 10), HeldMap(8, 11), schedulers=both)

    assert answer(found._replace(pinned_links=frozenset({2}))) == (Hold.LINK, 7)


def test_a_loader_that_registered_without_a_link_owns_it_while_it_lives() -> None:
    found = evidence(HeldMap(7, 10), schedulers=[SchedulerMap(10, "mini", is_registered=True)])

    assert answer(found) == (Hold.MAP, 7)


def test_without_its_loader_it_is_an_orphan() -> None:
    proof = prove(RUNNING, evidence(schedulers=[SchedulerMap(10, "mini", is_registered=True)]))

    assert (proof.hold, proof.map_id) == (Hold.NOBODY, 10)
    assert "without a link" in proof.reason


def test_a_pinned_link_makes_an_orphan() -> None:
    found = evidence(schedulers=[SchedulerMap(10, "mini")])._replace(pinned_links=frozenset({4}))

    proof = prove(RUNNING, found)

    assert proof.hold is Hold.NOBODY
    assert "pinned" in proof.reason


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(
            evidence(
                HeldLink(7, 1, 10),
                schedulers=[SchedulerMap(10, "mini"), SchedulerMap(11, "mini", is_registered=True)],
            ),
            id="a link and an orphan of the same name",
        ),
        pytest.param(
            evidence(HeldLink(7, 1, 10), schedulers=[SchedulerMap(10, "mini"), SchedulerMap(11, "mini")]),
            id="a link and a pinned one of the same name",
        ),
        pytest.param(
            evidence(
                HeldLink(7, 1, 10),
                HeldMap(8, 11),
                schedulers=[SchedulerMap(10, "mini"), SchedulerMap(11, "mini")],
            )._replace(pinned_links=frozenset({2})),
            id="a link and a newer one that may be pinned by a process with an open map",
        ),
        pytest.param(
            evidence(
                HeldMap(7, 10),
                schedulers=[
                    SchedulerMap(10, "mini", is_registered=True),
                    SchedulerMap(11, "mini", is_registered=True),
                ],
            ),
            id="two that are registered without a link",
        ),
        pytest.param(evidence(schedulers=[SchedulerMap(10, "other")]), id="no map of that name"),
        pytest.param(evidence(schedulers=[SchedulerMap(10, "mini")]), id="no link, held or pinned"),
        pytest.param(
            evidence(HeldLink(7, 1, 10), schedulers=[SchedulerMap(10, "mini")], gaps=("dark here",)),
            id="something could not be looked at",
        ),
        pytest.param(
            HeldObjects(links=(HeldLink(7, 1, 10),), schedulers=(SchedulerMap(10, "mini"),)),
            id="the process ended before it could be named",
        ),
        pytest.param(
            evidence(HeldLink(7, 1, 10), HeldLink(8, 1, 10), schedulers=[SchedulerMap(10, "mini")]),
            id="two units share one link",
        ),
    ],
)
def test_what_does_not_follow_is_not_claimed(found: HeldObjects) -> None:
    proof = prove(RUNNING, found)

    assert (proof.hold, proof.process) == (Hold.UNKNOWN, None)
    assert proof.reason != ""


def test_children_that_inherited_the_link_are_not_the_owner() -> None:
    parent, child = (Process(7, (1,), cgroups=("/a",)), Process(3, (7, 1), cgroups=("/a",)))
    found = HeldObjects(
        (child, parent), (HeldLink(3, 1, 10), HeldLink(7, 1, 10)), (), (SchedulerMap(10, "mini"),)
    )

    assert answer(found) == (Hold.LINK, 7)


@pytest.mark.parametrize("state", [state for state in State if state is not State.ENABLED])
def test_nothing_is_held_while_nothing_is_attached(state: State) -> None:
    found = evidence(HeldLink(7, 1, 10), schedulers=[SchedulerMap(10, "mini")])

    assert answer(found, KernelState(state)) == (Hold.NOTHING, None)


def test_leftovers_are_holders_of_what_is_not_attached_any_more() -> None:
    same = [SchedulerMap(10, "mini"), SchedulerMap(11, "mini")]
    links = HeldLink(9, 4, 10), HeldLink(7, 5, 11), HeldLink(5, 6, 99)
    found = evidence(*links, schedulers=same)._replace(other_maps=frozenset({99}))

    assert [process.pid for process in leftovers(RUNNING, found).processes] == [9]
    assert [process.pid for process in leftovers(KernelState(State.DISABLED), found).processes] == [7, 9]


def test_a_link_of_which_nobody_knows_the_kind_counts_as_left_behind() -> None:
    found = evidence(HeldLink(5, 6, 99), schedulers=[])

    assert [process.pid for process in leftovers(KernelState(State.DISABLED), found).processes] == [5]


def test_what_could_not_be_looked_at_may_be_left_behind() -> None:
    dark = leftovers(KernelState(State.DISABLED), evidence(schedulers=[], gaps=("dark here",)))

    assert (dark.gaps, dark.are_excluded) == (("dark here",), False)
    assert leftovers(KernelState(State.DISABLED), evidence(schedulers=[])).are_excluded


def test_a_registration_without_a_link_is_left_behind_unless_it_is_what_is_attached() -> None:
    registered, other = (
        SchedulerMap(each, ops, is_registered=True) for each, ops in ((10, "mini"), (11, "x"))
    )
    found = evidence(HeldMap(7, 10), HeldMap(8, 11), HeldMap(9, 12), schedulers=[registered, other])

    idle, busy = leftovers(KernelState(State.DISABLED), found), leftovers(RUNNING, found)

    assert (idle.registered, [each.pid for each in idle.processes]) == ((registered, other), [])
    assert (busy.registered, [each.pid for each in busy.processes]) == ((other,), [])


def test_an_ejected_scheduler_whose_link_is_pinned_is_left_behind() -> None:
    ejected, loaded = SchedulerMap(10, "mini"), SchedulerMap(11, "mini")
    found = evidence(HeldMap(8, 11), schedulers=[ejected, loaded])._replace(pinned_links=frozenset({4}))

    assert leftovers(KernelState(State.DISABLED), found).pinned == (ejected,)
    assert leftovers(KernelState(State.DISABLED), found._replace(pinned_links=frozenset())).are_excluded


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"/machine.slice/libpod-{ID}.scope/container", Place(ID, driver="podman")),
        (f"/libpod_parent/libpod-{ID}", Place(ID, driver="podman")),
        (f"/system.slice/docker-{ID}.scope", Place(ID)),
        (f"/docker/{ID}", Place(ID)),
        (f"/kubepods/besteffort/pod{UID}/{ID}", Place(ID, UID)),
        (f"/kubepods.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope", Place(ID, UID)),
        (f"/kubepods-pod{UID_}.slice/crio-{ID}.scope", Place(ID, UID)),
        (
            f"/system.slice/containerd.service/kubepods-pod{UID}.slice:cri-containerd:{ID}",
            Place(ID, UID, "containerd.service"),
        ),
        (f"/docker/{OTHER_ID}/kubelet/kubepods/pod{UID}/{ID}", Place(ID, UID)),
        ("/system.slice/scx.service", Place(unit="scx.service")),
        ("/user.slice/user-1000.slice/session-3.scope", Place(unit="session-3.scope")),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
            Place(unit="x.service", is_users_unit=True),
        ),
        ("/", Place()),
        ("/schedkit/scx-rusty", Place("scx-rusty", driver="containerd")),
        (f"/schedkit/{ID}/inner", Place(ID, driver="containerd")),
        (f"/docker/{OTHER_ID}/schedkit/scx-rusty", Place("scx-rusty", driver="containerd")),
        (f"/schedkit/scx-rusty/docker/{ID}", Place(ID)),
        ("/schedkit", Place()),
    ],
)
def test_a_control_group_says_where_a_process_belongs(path: str, place: Place) -> None:
    assert place_of(Process(7, cgroups=(path, "/"))) == place


def test_a_pod_has_a_name_only_while_its_control_group_says_that_it_is_one() -> None:
    process = Process(7, cgroups=(f"/kubepods/besteffort/pod{UID}/{ID}",), pod="prod/fifo")

    assert place_of(process) == Place(ID, UID, pod="prod/fifo")
    assert place_of(process._replace(cgroups=(f"/docker/{ID}",))) == Place(ID)


HASH = "0123456789abcdef" * 2  # of a pod that a node reads from a file of its own


@pytest.mark.parametrize(
    ("folders", "uid", "name"),
    [
        pytest.param(["kube-system_dns_9", f"prod_fifo-x7k2p_{UID}"], UID, "prod/fifo-x7k2p", id="a pod"),
        pytest.param([f"a_fifo.eu-1_{HASH}"], HASH, "a/fifo.eu-1", id="a static pod"),
        pytest.param([], UID, "", id="no logs"),
        pytest.param([f"prod_fifo_{UID.replace('1', '2')}"], UID, "", id="another pod"),
        pytest.param([f"prod_fifo_{UID}", f"test_fifo_{UID}"], UID, "", id="two names"),
        pytest.param([f"prod_fifo_x_{UID}"], UID, "", id="a name that no pod can have"),
        pytest.param([f"prod_\x1b[31mfifo_{UID}"], UID, "", id="what a terminal would obey"),
        pytest.param([f"prod_fifo_{UID}\n"], UID, "", id="a line's end"),
        pytest.param([f"prod_{'f' * 254}_{UID}", f"{'p' * 64}_fifo_{UID}"], UID, "", id="names too long"),
        pytest.param([f"_fifo_{UID}", f"prod__{UID}", f"pr.od_fifo_{UID}"], UID, "", id="no names"),
    ],
)
def test_a_pod_is_named_by_the_folder_of_its_logs(folders: list[str], uid: str, name: str) -> None:
    assert pod_named(folders, uid) == name


@pytest.mark.parametrize(
    ("path", "container", "is_in"),
    [
        (f"/libpod_parent/libpod-{ID}", ID, True),
        (f"/machine.slice/libpod-{ID}.scope/container", ID, True),
        ("/schedkit/scx-rusty", "scx-rusty", True),
        ("/schedkit/scx-rusty/inner", "scx-rusty", True),
        ("/schedkit/scx-rusty", "rusty", False),
        ("/schedkit/scx-rusty-2", "scx-rusty", False),
        ("/default/scx-rusty", "scx-rusty", False),
        (f"/libpod_parent/libpod-{ID}", ID[:12], False),
        ("/", "", False),
    ],
)
def test_a_process_is_in_a_container_when_its_control_group_is_the_containers(
    path: str, container: str, is_in: bool
) -> None:
    process = Process(7, cgroups=("/elsewhere", path))

    assert is_in_container(process, container, first_pid=0) is is_in


@pytest.mark.parametrize(("first_pid", "is_in"), [(7, True), (5, True), (3, True), (8, False), (0, False)])
def test_a_process_is_in_a_container_when_it_descends_from_its_first(first_pid: int, is_in: bool) -> None:
    assert is_in_container(Process(7, ancestors=(5, 3, 1)), "unlike", first_pid) is is_in


# Whole histories


class History:
    """A kernel and its processes as they come and go, who always knows the truth."""

    def __init__(self) -> None:
        self.loaded: list[Loaded] = []
        self.attached: Loaded | None = None
        self.links = 0
        self.strangers: list[int] = []
        self.pinned_by_strangers: set[int] = set()

    def load(self, name: str, *, linked: bool) -> None:
        number = len(self.loaded) + 1
        self.loaded.append(Loaded(pid=100 + number, map_id=10 * number, name=name, linked=linked))

    def attach(self, each: Loaded) -> None:
        """Refused while another is attached, after a number was taken; a map may be linked more than once."""
        if not each.alive or each.registered or each.pinned or not each.holds_map:
            return
        self.links += each.linked
        if self.attached:
            return
        self.attached = each
        if each.linked:
            each.link_id, each.link_ids = self.links, [*each.link_ids, self.links]
        else:
            each.registered = True

    def tune(self, _: Loaded) -> None:
        """A stranger attaches something else by a link, such as a way for TCP to control congestion."""
        self.links += 1
        self.strangers.append(self.links)

    def trace(self, _: Loaded) -> None:
        """A stranger pins a link of another kind."""
        self.links += 1
        self.pinned_by_strangers.add(self.links)

    def eject(self, _: Loaded) -> None:
        """SysRq-S: nobody lets go of anything."""
        self.attached = None

    def pin(self, each: Loaded) -> None:
        """Not beside older links of the same map: that is the one case which cannot be told apart."""
        each.pinned = each.pinned or (each.holds_link and len(each.link_ids) == 1)

    def close_link(self, each: Loaded) -> None:
        """Of several, all: what is attached goes with the last of them."""
        each.link_ids = []
        self.attached = None if self.attached is each and not each.is_kept else self.attached

    def close_map(self, each: Loaded) -> None:
        each.holds_map = False

    def end(self, each: Loaded) -> None:
        each.alive = False
        self.close_map(each)
        self.close_link(each)

    def kernel(self) -> KernelState:
        if self.attached is None:
            return KernelState(State.DISABLED)
        return KernelState(State.ENABLED, ops=self.attached.name)

    def evidence(self) -> HeldObjects:
        return HeldObjects(
            processes=tuple(
                Process(each.pid, cgroups=(f"/{each.pid}",)) for each in self.loaded if each.alive
            ),
            links=(
                *(HeldLink(each.pid, link, each.map_id) for each in self.loaded for link in each.link_ids),
                *(HeldLink(7, link, 7) for link in self.strangers),
            ),
            maps=tuple(HeldMap(each.pid, each.map_id) for each in self.loaded if each.holds_map),
            schedulers=tuple(
                SchedulerMap(each.map_id, each.name, is_registered=each.registered)
                for each in self.loaded
                if each.holds_map or each.is_kept
            ),
            pinned_links=frozenset(
                each.link_id for each in self.loaded if each.pinned and not each.holds_link
            )
            | self.pinned_by_strangers,
            other_maps=frozenset({7}),
        )

    def truth(self) -> tuple[Hold, int | None]:
        each = self.attached
        if each is None:
            return Hold.NOTHING, None
        if each.holds_link:
            return Hold.LINK, each.pid
        return (Hold.MAP, each.pid) if each.registered and each.holds_map else (Hold.NOBODY, None)


@dataclass(eq=False)
class Loaded:
    """A scheduler that was loaded by a process of its own."""

    pid: int
    map_id: int
    name: str
    linked: bool  # False: it registers without a link
    link_id: int = 0  # of the newest
    link_ids: list[int] = field(default_factory=list)  # those that it holds
    alive: bool = True
    holds_map: bool = True
    registered: bool = False
    pinned: bool = False

    @property
    def holds_link(self) -> bool:
        """Whether it holds one, attached or ejected."""
        return bool(self.link_ids)

    @property
    def is_kept(self) -> bool:
        """Whether something other than its open map keeps it in the kernel."""
        return self.registered or self.pinned or self.holds_link


ACTIONS = ("attach",) * 3 + ("eject", "pin", "close_link", "close_map", "end", "tune", "trace")
UNCLEAR = {"pin", "trace"}  # they leave links that no process holds


def play(chance: random.Random, *, plain: bool) -> Iterator[History]:
    """A history at each of its moments; a plain one has neither orphans nor pins."""
    history = History()
    for _ in range(30):
        action = chance.choice(ACTIONS)
        if not history.loaded or (chance.random() < 0.2 and len(history.loaded) < 5):
            history.load(chance.choice("ab"), linked=plain or chance.random() < 0.7)
        elif action not in UNCLEAR or not plain:
            getattr(history, action)(chance.choice(history.loaded))
        yield history


def test_whatever_happened_no_wrong_owner_is_claimed() -> None:
    """In 6,000 moments of 200 histories."""
    for seed in range(200):
        for history in play(random.Random(seed), plain=False):
            claim = answer(history.evidence(), history.kernel())
            assert claim in {history.truth(), (Hold.UNKNOWN, None)}, f"seed {seed}: {history.loaded}"


def test_without_orphans_and_pins_the_owner_is_always_known() -> None:
    """As long as everybody attaches with a link, no history is too confusing."""
    for seed in range(100):
        for history in play(random.Random(seed), plain=True):
            assert answer(history.evidence(), history.kernel()) == history.truth(), f"seed {seed}"
