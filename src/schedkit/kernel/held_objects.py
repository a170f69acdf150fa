"""Which processes hold struct_ops links and maps open: the evidence from which an owner is proved."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from schedkit.kernel import file_formats, files, pod_names, structops, watching
from schedkit.model.host.holders import HeldLink, HeldMap, HeldObjects, MapsReading
from schedkit.model.host.processes import Process

_BPF_FILES = frozenset({"anon_inode:bpf_link", "anon_inode:bpf-link", "anon_inode:bpf-map"})
_STRUCT_OPS_MAP = "26"
_FIRST_NAMESPACE = "pid:[4026531836]"  # the number is the kernel's own constant
_MAX_PROCESSES = 1 << 18
# busy servers have some hundred thousand open files, and so many take us seconds
_MAX_FILES = 1 << 22  # of all processes together
_MAX_FILES_OF_ONE = 1 << 20  # what a process may open, unless somebody raises the kernel's own limit
_MAX_HELD = 4096  # struct_ops links and maps: there are a few
# that of a link or a map has some hundred bytes; others have a line for each thing that the file watches, and
# all have one for each lock: a process can make them as long as it likes
_MAX_DESCRIPTION = 4096
_OF_EVERY_FILE = frozenset({"pos", "flags", "mnt_id", "ino", "lock"})  # stands before all else
_MAX_COMMAND = 200
_MAX_ANCESTORS = 64


def gather(root: Path, *, maps: Callable[[Path], MapsReading] = structops.read) -> HeldObjects:
    """Look into every process once; one that ends meanwhile is as if it had not been there."""
    scan = _scan(root / "proc")
    known = maps(root)
    gaps = [*_blind_spots(root / "proc"), *scan.gaps(), *([known.problem] if known.problem else [])]
    pids = {link.pid for link in scan.links} | {held.pid for held in scan.maps}
    processes = tuple(pod_names.named(root, each) for each in _processes(root / "proc", sorted(pids), gaps))
    return HeldObjects(
        processes=processes,
        links=tuple(scan.links),
        maps=tuple(scan.maps),
        schedulers=known.schedulers,
        pinned_links=known.link_ids - scan.link_ids,
        gaps=tuple(gaps),
        other_maps=known.other_maps,
    )


class _Scan:
    """What processes hold; of what could not be seen no more is kept than is told."""

    def __init__(self) -> None:
        self.link_ids: set[int] = set()  # of links of any kind
        self.links: dict[HeldLink, None] = {}  # in the order in which they were found
        self.maps: dict[HeldMap, None] = {}
        self.processes = self.files = 0
        self.denied = self.first_denied = 0  # how many processes, and the first one
        self.trouble = ""  # the first that is none of these

    @property
    def is_full(self) -> bool:
        """Whether there is more than can be looked at."""
        held = len(self.links) + len(self.maps)
        return self.processes > _MAX_PROCESSES or self.files > _MAX_FILES or held > _MAX_HELD

    def gaps(self) -> Iterator[str]:
        """Why this may not be all; sentences."""
        if self.trouble:
            yield self.trouble
        if self.denied:
            others = f" and {self.denied - 1} more" if self.denied > 1 else ""
            yield f"process {self.first_denied}{others} cannot be inspected: CAP_SYS_PTRACE is needed"
        if self.is_full:
            yield "there are too many processes and open files to inspect them all"


def _scan(proc: Path) -> _Scan:
    """What all processes hold, as far as we may look and as long as there are not too many."""
    scan = _Scan()
    try:
        for pid in _pids(proc):
            scan.processes += 1
            if scan.is_full:
                break
            _look_into(scan, pid, f"{proc}/{pid}")
    except OSError as error:
        scan.trouble = f"{proc} cannot be listed: {error.strerror}"
    return scan


def _pids(proc: Path) -> Iterator[int]:
    """One after the other: a list of all would be as long as somebody likes."""
    with os.scandir(proc) as entries:
        yield from (pid for each in entries if (pid := file_formats.number(each.name)) is not None)


def _look_into(scan: _Scan, pid: int, folder: str) -> None:
    """Take what one process holds, or note that it could not be seen; one that ends holds nothing."""
    try:
        for description in _descriptions(scan, folder):
            _take(scan, pid, description)
    except PermissionError:
        scan.denied, scan.first_denied = scan.denied + 1, scan.first_denied or pid
    except OSError as error:
        if not files.is_gone(error):
            scan.trouble = scan.trouble or _unseen(pid, error)


def _unseen(pid: int, error: OSError) -> str:
    """Trouble of our own, such as too many open files, must not look like the end of a process."""
    return f"process {pid} could not be inspected: {error.strerror}"


def _descriptions(scan: _Scan, folder: str) -> Iterator[Mapping[str, str]]:
    """What the kernel says about each open link and map of a process; raises `PermissionError`.

    Root without CAP_SYS_PTRACE may see that a file is open, and not what it is.
    """
    opened, are_shown = _open_files(folder)
    with opened as entries:
        for count, entry in enumerate(entries, 1):
            scan.files += 1
            if count > _MAX_FILES_OF_ONE:
                raise OSError(errno.EMFILE, f"it has more than {_MAX_FILES_OF_ONE:,} open files")
            try:
                if _may_be_of_bpf(folder, entry.name, are_shown=are_shown):
                    yield describe(f"{folder}/fdinfo/{entry.name}")
            except OSError as error:
                if not files.is_gone(error):  # it was closed meanwhile
                    raise


def _may_be_of_bpf(folder: str, name: str, *, are_shown: bool) -> bool:
    if are_shown:
        return os.readlink(f"{folder}/fd/{name}") in _BPF_FILES  # noqa: PTH115 - pathlib takes four times as long
    return not watching.is_watching(int(Path(folder).name), int(name))


def _open_files(folder: str) -> tuple[AbstractContextManager[Iterator[os.DirEntry[str]]], bool]:
    """The open files of a process, and whether it is shown what they are, or only in their descriptions.

    CAP_SYS_PTRACE opens the descriptions of any process's files, but not the folder of another user's files:
    for that one would have to read every file of the machine (CAP_DAC_READ_SEARCH).
    """
    try:
        return os.scandir(f"{folder}/fd"), True
    except PermissionError:
        return os.scandir(f"{folder}/fdinfo"), False


def describe(path: str) -> Mapping[str, str]:
    """What the kernel says about an open link or map; empty: it is another kind of file.

    What is not told in the first lines is trouble: a process may have hidden its link behind locks.
    """
    text, is_whole = _beginning(path)
    fields = file_formats.fields(text)
    kind = next((name for name in fields if name not in _OF_EVERY_FILE), "")
    if not is_whole and not _is_told(kind, fields):
        raise OSError(errno.EFBIG, f"the kernel says too much about its open file {Path(path).name}")
    return fields if kind in {"link_type", "map_type"} else {}


def _is_told(kind: str, fields: Mapping[str, str]) -> bool:
    """Whether that is all one must know."""
    if kind == "link_type":
        return "link_id" in fields and (fields[kind] != "struct_ops" or "map_id" in fields)
    return "map_id" in fields if kind == "map_type" else bool(kind)


def _beginning(path: str) -> tuple[str, bool]:
    """The first lines of a file, and whether these are all."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _MAX_DESCRIPTION)
    finally:
        os.close(descriptor)
    if len(content) < _MAX_DESCRIPTION:
        return content.decode(errors="replace"), True
    return content[: content.rfind(b"\n") + 1].decode(errors="replace"), False


def _take(scan: _Scan, pid: int, fields: Mapping[str, str]) -> None:
    link_id = file_formats.number(fields.get("link_id"))
    scan.link_ids.update(() if link_id is None else (link_id,))
    if (link := parse_link(pid, fields)) is not None:
        scan.links[link] = None
    if (held := parse_map(pid, fields)) is not None:
        scan.maps[held] = None


def parse_link(pid: int, fields: Mapping[str, str]) -> HeldLink | None:
    """The struct_ops link that a file of fdinfo describes; None if it is anything else."""
    link_id, map_id = file_formats.number(fields.get("link_id")), file_formats.number(fields.get("map_id"))
    if fields.get("link_type") != "struct_ops" or link_id is None or map_id is None:
        return None
    return HeldLink(pid, link_id, map_id)


def parse_map(pid: int, fields: Mapping[str, str]) -> HeldMap | None:
    """The struct_ops map that a file of fdinfo describes; None if it is anything else."""
    map_id = file_formats.number(fields.get("map_id"))
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
    fields = file_formats.fields(status)
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
        parent = file_formats.number(file_formats.fields(status or "").get("PPid"))
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
