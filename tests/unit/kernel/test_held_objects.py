"""Evidence from a `/proc` made for it: what processes hold, who they are, and what could not be seen."""

from __future__ import annotations

import os
import re
import resource
import struct
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from schedkit.kernel import held_objects, structops
from schedkit.model.host.holders import HeldLink, HeldMap, HeldObjects, MapsReading, SchedulerMap
from schedkit.model.host.processes import Process
from schedkit.model.kernel.btf import Layout

LINK = "pos:\t0\nflags:\t02000002\nlink_type:\tstruct_ops\nlink_id:\t{}\nprog_tag:\t0\nmap_id:\t{}\n"
TRACING = "link_type:\ttracing\nlink_id:\t9\nprog_tag:\t0\nprog_id:\t40\nattach_type:\t24\n"
MAP = "pos:\t0\nmap_type:\t{}\nkey_size:\t4\nvalue_size:\t576\nmap_id:\t{}\nfrozen:\t0\n"
FILE = "pos:\t0\nflags:\t02000000\nmnt_id:\t16\nino:\t9\n"  # what the kernel says first about any file
WATCHED = "tfd: {:8d} events:       19 data: {:16x}  pos:0 ino:1 sdev:f\n"
LOCK = "lock:\t{0}: POSIX  ADVISORY  READ 77 00:10:9 {0} {0}\n"
LINKS = frozenset({5, 9, 14})  # all that the kernel has
STATUS = "Name:\t{}\nUmask:\t0022\nPid:\t{}\nPPid:\t{}\n"


class Proc:
    """A `/proc` with an init, as seen from the host's own process namespace."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc/self/ns").mkdir(parents=True)
        (root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
        (root / "proc/uptime").touch()
        self.add(1, "init", cgroup="0::/init.scope\n")

    def add(self, pid: int, name: str, *, parent: int = 0, cgroup: str = "0::/\n") -> None:
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "fdinfo").mkdir()
        (folder / "status").write_text(STATUS.format(name, pid, parent))
        (folder / "cmdline").write_text(f"/usr/bin/{name}\0--verbose\0")
        (folder / "cgroup").write_text(cgroup)

    def open(self, pid: int, number: int, target: str, info: str = "pos:\t0\n") -> None:
        (self.root / f"proc/{pid}/fd/{number}").symlink_to(target)
        (self.root / f"proc/{pid}/fdinfo/{number}").write_text(info)

    def gather(self, *schedulers: SchedulerMap, problem: str = "") -> HeldObjects:
        return held_objects.gather(self.root, maps=lambda _: MapsReading(schedulers, LINKS, problem))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_the_many_open_files_of_a_busy_server_leave_no_gap(proc: Proc) -> None:
    proc.add(100, "backend")
    for number in range(300):
        (proc.root / f"proc/100/fd/{number}").symlink_to("socket:[1]")
    for pid in range(101, 1101):
        (proc.root / f"proc/{pid}").mkdir()
        (proc.root / f"proc/{pid}/fd").symlink_to("../100/fd")
    proc.add(2000, "scx_rusty")
    proc.open(2000, 4, "anon_inode:bpf_link", LINK.format(5, 13))

    evidence = proc.gather()

    assert (evidence.links, evidence.gaps) == ((HeldLink(2000, 5, 13),), ())


def test_a_process_with_a_link_is_found_with_its_command_and_control_group(proc: Proc) -> None:
    proc.add(77, "scx_rusty", parent=1, cgroup="0::/system.slice/scx.service\n")
    proc.open(77, 3, "/dev/null")
    proc.open(77, 4, "anon_inode:bpf_link", LINK.format(5, 13))
    proc.open(77, 5, "anon_inode:bpf-map", MAP.format(26, 13))

    rusty = SchedulerMap(13, "rusty")
    assert proc.gather(rusty) == HeldObjects(
        processes=(Process(77, (1,), "/usr/bin/scx_rusty --verbose", ("/system.slice/scx.service",)),),
        links=(HeldLink(77, 5, 13),),
        maps=(HeldMap(77, 13),),
        schedulers=(rusty,),
        pinned_links=LINKS - {5},
    )


def test_a_process_in_a_pod_has_the_name_that_the_kubelet_gave_its_logs(proc: Proc) -> None:
    uid = "11111111-2222-3333-4444-555555555555"
    (proc.root / f"var/log/pods/prod_fifo-x7k2p_{uid}").mkdir(parents=True)
    for pid, cgroup in ((77, f"0::/kubepods/pod{uid}/{'ab' * 32}\n"), (78, "0::/system.slice/scx.service\n")):
        proc.add(pid, "scx_fifo", cgroup=cgroup)
        proc.open(pid, 4, "anon_inode:bpf_link", LINK.format(5, 13))

    assert [each.pod for each in proc.gather().processes] == ["prod/fifo-x7k2p", ""]


def test_a_node_that_keeps_its_logs_elsewhere_leaves_a_pod_without_a_name(proc: Proc) -> None:
    proc.add(77, "scx_fifo", cgroup=f"0::/kubepods/pod11111111-2222-3333-4444-555555555555/{'ab' * 32}\n")
    proc.open(77, 4, "anon_inode:bpf_link", LINK.format(5, 13))

    (found,) = proc.gather().processes
    assert (found.pod, proc.gather().gaps) == ("", ())


def test_links_and_maps_of_other_kinds_are_none_of_ours(proc: Proc) -> None:
    proc.add(77, "tracer")
    proc.open(77, 4, "anon_inode:bpf_link", TRACING)
    proc.open(77, 5, "anon_inode:bpf-map", MAP.format(1, 13))
    proc.open(77, 6, "anon_inode:bpf-prog", "prog_type:\t27\n")
    proc.open(77, 7, "socket:[123]", LINK.format(5, 13))

    assert proc.gather() == HeldObjects(pinned_links=LINKS - {9})


def test_a_process_that_ends_meanwhile_is_as_if_it_had_not_been_there(proc: Proc) -> None:
    (proc.root / "proc/78").mkdir()
    proc.add(79, "closing")
    (proc.root / "proc/79/fd/3").symlink_to("anon_inode:bpf_link")  # closed before fdinfo was read

    assert proc.gather() == HeldObjects(pinned_links=LINKS)


def test_a_container_that_sees_only_itself_says_so(proc: Proc) -> None:
    (proc.root / "proc/self/ns/pid").unlink()
    (proc.root / "proc/self/ns/pid").symlink_to("pid:[4026532201]")

    (gap,) = proc.gather().gaps
    assert "the host's process namespace is needed" in gap


def test_processes_that_are_hidden_are_a_gap(tmp_path: Path) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026531836]")

    (gap,) = held_objects.gather(tmp_path, maps=lambda _: MapsReading()).gaps
    assert "hidden" in gap


def test_what_the_kernel_does_not_show_is_a_gap(proc: Proc) -> None:
    assert proc.gather(problem="CAP_SYS_ADMIN is needed").gaps == ("CAP_SYS_ADMIN is needed",)


@pytest.mark.parametrize("spoiled", ["fd", "fdinfo/4", "status", "cgroup"])
def test_trouble_of_our_own_is_a_gap_and_not_the_end_of_a_process(proc: Proc, spoiled: str) -> None:
    proc.add(77, "scx_rusty")
    proc.open(77, 4, "anon_inode:bpf_link", LINK.format(5, 13))
    path = proc.root / "proc/77" / spoiled
    path.rename(path.with_name("elsewhere"))
    # neither a folder that can be listed nor a file that can be read: an error, but none of a process's end
    path.symlink_to(path)

    found = proc.gather(SchedulerMap(13, "rusty"))

    assert found.gaps == ("process 77 could not be inspected: Too many levels of symbolic links",)
    assert found.processes == ()


def test_without_descriptors_left_nothing_is_claimed(proc: Proc) -> None:
    proc.add(77, "scx_rusty")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
    try:
        gaps = proc.gather().gaps
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)

    assert any("Too many open files" in gap for gap in gaps)


def test_a_process_that_ends_before_it_is_placed_is_no_process(proc: Proc) -> None:
    proc.add(77, "scx_rusty")
    proc.open(77, 4, "anon_inode:bpf_link", LINK.format(5, 13))
    (proc.root / "proc/77/cgroup").unlink()

    found = proc.gather(SchedulerMap(13, "rusty"))

    assert (found.processes, found.gaps) == ((), ())


@contextmanager
def powerless() -> Iterator[Path]:
    """Without root's powers, in a folder that anybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        previous = os.geteuid()
        try:
            yield Path(name)
        finally:
            os.seteuid(previous)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can step down to somebody who may not look")
@pytest.mark.parametrize(
    "secrets", [("fd", "fdinfo"), ("fdinfo/4",)], ids=["that files are open", "what they are"]
)
def test_processes_that_cannot_be_looked_into_are_a_gap(secrets: tuple[str, ...]) -> None:
    with powerless() as root:
        proc = Proc(root)
        proc.add(77, "private")
        proc.open(77, 4, "anon_inode:bpf_link", LINK.format(5, 13))
        for each in secrets:
            (root / "proc/77" / each).chmod(0)
        os.seteuid(65534)

        gaps = proc.gather().gaps

    assert gaps == ("process 77 cannot be inspected: CAP_SYS_PTRACE is needed",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can step down to somebody who may not look")
def test_files_of_another_user_are_known_by_their_descriptions_alone() -> None:
    with powerless() as root:
        proc = Proc(root)
        proc.add(77, "somebody's")
        proc.open(77, 3, "/etc/motd")
        proc.open(77, 4, "anon_inode:bpf_link", LINK.format(5, 13))
        (root / "proc/77/fd").chmod(0)
        os.seteuid(65534)

        found = proc.gather()

    assert found.links == (HeldLink(77, 5, 13),)
    assert found.gaps == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can step down to somebody who may not look")
def test_of_several_that_cannot_be_looked_into_one_is_named_and_the_others_are_counted() -> None:
    with powerless() as root:
        proc = Proc(root)
        for pid in (77, 78, 79):
            proc.add(pid, "private")
            (root / f"proc/{pid}/fd").chmod(0)
            (root / f"proc/{pid}/fdinfo").chmod(0)
        os.seteuid(65534)

        (gap,) = proc.gather().gaps

    assert re.match(r"process 7[789] and 2 more cannot be inspected: CAP_SYS_PTRACE", gap)


def described(tmp_path: Path, *texts: str) -> str:
    (tmp_path / "7").write_text("".join(texts))
    return str(tmp_path / "7")


def test_of_a_file_that_watches_thousands_of_others_the_beginning_is_read(tmp_path: Path) -> None:
    """An agent has 64 MiB, and any process of its machine may have such a file."""
    watched = (WATCHED.format(number, number) for number in range(100_000))
    path = described(tmp_path, FILE, *watched)
    tracemalloc.start()
    try:
        assert held_objects.describe(path) == {}
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_the_open_files_of_a_process_are_never_all_in_memory(proc: Proc) -> None:
    proc.add(77, "server")
    for number in range(10_000):
        (proc.root / f"proc/77/fd/{number}").symlink_to("socket:[1]")
    proc.gather()  # whatever is made once
    tracemalloc.start()
    try:
        proc.gather()
        assert (
            tracemalloc.get_traced_memory()[1] < 200_000
        )  # a list of their names would have three times that
    finally:
        tracemalloc.stop()


def test_a_link_that_is_hidden_behind_locks_is_a_gap(proc: Proc) -> None:
    proc.add(77, "scx_rusty")
    locks = "".join(LOCK.format(number) for number in range(200))
    proc.open(77, 4, "anon_inode:bpf_link", FILE + locks + LINK.format(5, 13))

    (gap,) = proc.gather().gaps

    assert gap == "process 77 could not be inspected: the kernel says too much about its open file 4"


@pytest.mark.parametrize("locks", [0, 1, 20])
def test_a_link_with_some_locks_is_found(tmp_path: Path, locks: int) -> None:
    text = "".join(LOCK.format(number) for number in range(locks))
    fields = held_objects.describe(described(tmp_path, FILE, text, LINK.format(5, 13)))

    assert held_objects.parse_link(77, fields) == HeldLink(77, 5, 13)


@pytest.mark.parametrize("size", range(3950, 4150, 7))
@pytest.mark.parametrize("whole", [LINK.format(5, 13), MAP.format(26, 13)])
def test_wherever_a_description_is_cut_off_nothing_is_hidden(tmp_path: Path, size: int, whole: str) -> None:
    path = described(tmp_path, FILE, f"lock:\t{'x' * (size - 80)}\n", whole)
    with suppress(OSError):  # that it could not be seen
        fields = held_objects.describe(path)
        assert held_objects.parse_link(7, fields) or held_objects.parse_map(7, fields)


def test_a_tracing_link_with_thousands_of_addresses_is_no_gap(tmp_path: Path) -> None:
    head = "link_type:\tkprobe_multi\nlink_id:\t9\nkprobe_cnt:\t9000\n"
    path = described(tmp_path, FILE, head, *(f"{each} ffffffff81000000 vfs_read\n" for each in range(9000)))

    assert held_objects.describe(path)["link_id"] == "9"


def test_words_that_a_program_chose_are_no_link(tmp_path: Path) -> None:
    """Rings show the names of their files."""
    path = described(tmp_path, FILE, "SqMask:\t0x7\nUserFiles:\t1\n    0: x\n", LINK.format(99, 13))

    assert held_objects.describe(path) == {}


def test_more_open_files_than_can_be_looked_at_are_a_gap(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_objects, "_MAX_FILES_OF_ONE", 100)
    proc.add(77, "scx_rusty")
    for number in range(100):
        proc.open(77, number, "/dev/null")
    assert proc.gather().gaps == ()
    proc.open(77, 100, "anon_inode:bpf_link", LINK.format(5, 13))

    (gap,) = proc.gather().gaps

    assert gap == "process 77 could not be inspected: it has more than 100 open files"


@pytest.mark.parametrize(("limit", "value"), [("_MAX_FILES", 3), ("_MAX_PROCESSES", 1), ("_MAX_HELD", 0)])
def test_what_is_more_than_can_be_looked_at_is_a_gap(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    proc.add(77, "scx_rusty")
    for number in range(4):
        proc.open(77, number, "anon_inode:bpf_link", LINK.format(5, 13))
    assert proc.gather().gaps == ()
    monkeypatch.setattr(held_objects, limit, value)

    assert proc.gather().gaps == ("there are too many processes and open files to inspect them all",)


LAYOUT = Layout(value_size=128, name_at=64, sub_cgroup_at=16)


@pytest.mark.parametrize(
    ("state", "cgroup", "expected"),
    [
        pytest.param(3, 0, SchedulerMap(5, "mini"), id="with a link"),
        pytest.param(1, 1, SchedulerMap(5, "mini", is_registered=True), id="registered without a link"),
        pytest.param(3, 812, SchedulerMap(5, "mini", is_sub=True), id="of a part of the control groups"),
    ],
)
def test_a_maps_value_tells_the_schedulers_name_and_how_it_is_held(
    state: int, cgroup: int, expected: SchedulerMap
) -> None:
    value = struct.pack("=IIQQ40s64s", 1, state, 0, cgroup, b"", b"mini\0rest")

    assert structops.interpret(5, value, LAYOUT) == expected


def test_without_types_no_map_is_looked_at(tmp_path: Path) -> None:
    assert "does not describe sched_ext schedulers" in structops.read(tmp_path).problem
