"""Which processes hold struct_ops links and maps open: the evidence from which an owner is proved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from schedkit.kernel import files, parsing, structops
from schedkit.model.host.ownership import HeldLink, HeldMap, HeldObjects, MapsReading
from schedkit.model.host.processes import Process

_BPF_FILES = frozenset({"anon_inode:bpf_link", "anon_inode:bpf-link", "anon_inode:bpf-map"})
_STRUCT_OPS_MAP = "26"
_FIRST_NAMESPACE = "pid:[4026531836]"  # the number is the kernel's own constant
_MAX_PROCESSES = 1 << 18
# of all processes together: busy servers have some hundred thousand, and so many take us seconds; only the
# names in the folder of one process are kept at a time
_MAX_FILES = 1 << 22
_MAX_COMMAND = 200
_MAX_ANCESTORS = 64


def gather(root: Path, *, maps: Callable[[Path], MapsReading] = structops.read) -> HeldObjects:
    """Look into every process once; one that ends meanwhile is as if it had not been there."""
    scan = _scan(root / "proc")
    known = maps(root)
    gaps = [*_blind_spots(root / "proc"), *scan.gaps, *([known.problem] if known.problem else [])]
    pids = {link.pid for link in scan.links} | {held.pid for held in scan.maps}
    processes = _processes(root / "proc", sorted(pids), gaps)
    return HeldObjects(
        processes=processes,
        links=tuple(scan.links),
        maps=tuple(scan.maps),
        schedulers=known.schedulers,
        pinned_links=known.link_ids - scan.link_ids,
        gaps=tuple(gaps),
        other_maps=known.other_maps,
    )


class _Scan(NamedTuple):
    link_ids: set[int]  # of links of any kind
    links: list[HeldLink]
    maps: list[HeldMap]
    gaps: list[str]


def _scan(proc: Path) -> _Scan:
    """What all processes hold, as far as we may look and as long as there are not too many."""
    scan, denied, files_left = _Scan(set(), [], [], []), [], _MAX_FILES
    pids = _pids(proc, scan.gaps)
    for pid in pids[:_MAX_PROCESSES]:
        try:
            opened = _open_files(f"{proc}/{pid}")
            files_left -= len(opened.names)
            if files_left < 0:
                break
            _take(scan, pid, _bpf_files(f"{proc}/{pid}", opened))
        except PermissionError:
            denied.append(pid)
        except OSError as error:
            if not files.is_gone(error):
                scan.gaps.append(_unseen(pid, error))
    scan.gaps.extend(_gaps(denied, is_cut_off=files_left < 0 or len(pids) > _MAX_PROCESSES))
    return scan


def _gaps(denied: list[int], *, is_cut_off: bool) -> Iterator[str]:
    if denied:
        others = f" and {len(denied) - 1} more" if len(denied) > 1 else ""
        yield f"process {denied[0]}{others} cannot be inspected: CAP_SYS_PTRACE is needed"
    if is_cut_off:
        yield "there are too many processes and open files to inspect them all"


def _unseen(pid: int, error: OSError) -> str:
    """Trouble of our own, such as too many open files, must not look like the end of a process."""
    return f"process {pid} could not be inspected: {error.strerror}"


def _pids(proc: Path, gaps: list[str]) -> list[int]:
    try:
        return sorted(int(each.name) for each in proc.iterdir() if parsing.number(each.name) is not None)
    except OSError as error:
        gaps.append(f"{proc} cannot be listed: {error.strerror}")
        return []


class _OpenFiles(NamedTuple):
    names: list[str]
    are_shown: bool = True  # False: only their descriptions say what they are


def _open_files(folder: str) -> _OpenFiles:
    """The open files of a process.

    CAP_SYS_PTRACE opens the descriptions of any process's files, but not the folder of another user's files:
    for that one would have to read every file of the machine (CAP_DAC_READ_SEARCH).
    """
    try:
        return _OpenFiles(os.listdir(f"{folder}/fd"))  # noqa: PTH208 - pathlib takes four times as long
    except PermissionError:
        return _OpenFiles(os.listdir(f"{folder}/fdinfo"), are_shown=False)  # noqa: PTH208 - as above


def _bpf_files(folder: str, opened: _OpenFiles) -> Iterator[str]:
    """What the kernel says about each open link and map of a process; raises `PermissionError`.

    Root without CAP_SYS_PTRACE may see that a file is open, and not what it is.
    """
    for name in opened.names:
        try:
            if not opened.are_shown or os.readlink(f"{folder}/fd/{name}") in _BPF_FILES:  # noqa: PTH115
                yield Path(f"{folder}/fdinfo/{name}").read_text(errors="replace")
        except OSError as error:
            if not files.is_gone(error):  # it was closed meanwhile
                raise


def _take(scan: _Scan, pid: int, texts: Iterator[str]) -> None:
    for text in texts:
        link_id = parsing.number(parsing.fields(text).get("link_id"))
        scan.link_ids.update(() if link_id is None else (link_id,))
        link, held = parse_link(pid, text), parse_map(pid, text)
        if link is not None and link not in scan.links:
            scan.links.append(link)
        if held is not None and held not in scan.maps:
            scan.maps.append(held)


def parse_link(pid: int, text: str) -> HeldLink | None:
    """The struct_ops link that a file of fdinfo describes; None if it is anything else."""
    fields = parsing.fields(text)
    link_id, map_id = parsing.number(fields.get("link_id")), parsing.number(fields.get("map_id"))
    if fields.get("link_type") != "struct_ops" or link_id is None or map_id is None:
        return None
    return HeldLink(pid, link_id, map_id)


def parse_map(pid: int, text: str) -> HeldMap | None:
    """The struct_ops map that a file of fdinfo describes; None if it is anything else."""
    fields = parsing.fields(text)
    map_id = parsing.number(fields.get("map_id"))
    if fields.get("map_type") != _STRUCT_OPS_MAP or map_id is None:
        return None
    return HeldMap(pid, map_id)


def _processes(proc: Path, pids: list[int], gaps: list[str]) -> tuple[Process, ...]:
    """Who they are; those that have ended are left out, and what could not be seen becomes a gap."""
    found: list[Process] = []
    for pid in pids:
        try:
            found.extend(filter(None, [_process(proc / str(pid))]))
        except OSError as error:
            gaps.append(_unseen(pid, error))
    return tuple(found)


def _process(folder: Path) -> Process | None:
    """Who it is; None if it has ended, and `OSError` if that cannot be seen."""
    status, cgroup = (files.text_unless_gone(folder / name) for name in ("status", "cgroup"))
    if status is None or cgroup is None:
        return None
    fields = parsing.fields(status)
    words = (files.text(folder / "cmdline") or "").replace("\0", " ").strip()
    return Process(
        pid=int(folder.name),
        ancestors=_ancestors(folder),
        command=(words or fields.get("Name", ""))[:_MAX_COMMAND],
        cgroups=parse_cgroups(cgroup),
        program=_program(folder),
    )


def _program(folder: Path) -> str:
    """The path of what it runs; empty if we may not see it."""
    try:
        return os.readlink(folder / "exe")  # noqa: PTH115 - as above
    except OSError:
        return ""


def _ancestors(folder: Path) -> tuple[int, ...]:
    """The process's parent, that one's parent, and so on."""
    pids: list[int] = []
    for _ in range(_MAX_ANCESTORS):
        status = files.text_unless_gone(
            folder.with_name(str(pids[-1])) / "status" if pids else folder / "status"
        )
        parent = parsing.number(parsing.fields(status or "").get("PPid"))
        if not parent or parent in pids:
            break
        pids.append(parent)
    return tuple(pids)


def parse_cgroups(text: str) -> tuple[str, ...]:
    """The different paths in `/proc/PID/cgroup`, in the kernel's order."""
    paths = (line.split(":", 2) for line in text.splitlines())
    return tuple(dict.fromkeys(parts[2] for parts in paths if len(parts) == 3))


def _blind_spots(proc: Path) -> Iterator[str]:
    """Why there may be processes that we do not even see."""
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError:
        namespace = ""
    if namespace != _FIRST_NAMESPACE:
        yield "only processes of this container are visible: the host's process namespace is needed"
    elif not (proc / "1").exists():
        yield "processes of other users are hidden: run as root"
