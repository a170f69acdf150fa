"""The kernel's struct_ops maps, asked for by bpf(2): which of them are schedulers, and their names.

No link that a process holds is opened here, not even to look at it: while we held it, a scheduler whose
process ends would stay.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schedkit.kernel import types
from schedkit.model.host.holders import MapsReading, SchedulerMap
from schedkit.model.kernel.btf import Layout

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "s390x": 351, "ppc64le": 361}
_MAP_LOOKUP_ELEM, _MAP_DELETE_ELEM = 1, 3
_MAP_GET_NEXT_ID, _MAP_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 12, 14, 15
_LINK_GET_FD_BY_ID, _LINK_GET_NEXT_ID, _LINK_DETACH = 30, 31, 34
_READ_ONLY = 1 << 3
_STRUCT_OPS = 26  # the type of map
_REGISTERED = 1  # the state of a map that is in use without a link
_INFO_SIZE = 88
_STRUCT_OPS_LINK = 9  # the type of link
_MAP_OF_LINK_AT = 16  # in what the kernel says about such a link
_MAX_IDS = 1 << 14
_MAX_VALUE = 1 << 16


def read(root: Path) -> MapsReading:
    """Every sched_ext scheduler that is loaded, attached or not, and every link; needs CAP_SYS_ADMIN."""
    layouts = types.layouts(root)
    if not layouts:
        return MapsReading(problem=f"{root / types.RUNNING} does not describe sched_ext schedulers")
    try:
        maps = [_map(map_id, layouts) for map_id in _ids(_MAP_GET_NEXT_ID)]
        links = frozenset(_ids(_LINK_GET_NEXT_ID))
    except PermissionError:
        return MapsReading(problem="the kernel does not show its BPF maps: CAP_SYS_ADMIN is needed")
    except OSError as error:
        return MapsReading(problem=f"the kernel does not show its BPF maps: {error.strerror}")
    schedulers = tuple(each for each in maps if isinstance(each, SchedulerMap))
    return MapsReading(
        schedulers, links, other_maps=frozenset(each for each in maps if isinstance(each, int))
    )


def unregister(map_id: int) -> None:
    """Detach a scheduler that is registered without a link, as its loader would have; raises `OSError`."""
    with _opened(_MAP_GET_FD_BY_ID, map_id) as descriptor:
        key = ctypes.c_uint32(0)
        _bpf(_MAP_DELETE_ELEM, struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key), 0, 0))


def detach(map_id: int, link_ids: Iterable[int]) -> bool:
    """Detach what one of these links, which no process holds, has attached of that map; raises `OSError`.

    Its pin stays, and keeps nothing in the kernel any more. False: none of them is of that map.
    """
    for link_id in link_ids:
        try:
            with _opened(_LINK_GET_FD_BY_ID, link_id) as descriptor:
                if _map_of_link(descriptor) == map_id:
                    _bpf(_LINK_DETACH, struct.pack("=I", descriptor))
                    return True
        except FileNotFoundError:  # it is gone
            continue
    return False


def _map_of_link(descriptor: int) -> int | None:
    """The map that a link of struct_ops has attached; None: it is of another kind."""
    info = _info(descriptor)
    kind, map_id = struct.unpack_from("=I", info)[0], struct.unpack_from("=I", info, _MAP_OF_LINK_AT)[0]
    return map_id if kind == _STRUCT_OPS_LINK else None


def _ids(command: int) -> Iterator[int]:
    """The numbers of all maps, or of all links."""
    current = 0
    for _ in range(_MAX_IDS):
        try:
            answer = _bpf(command, struct.pack("=III", current, 0, 0))
        except FileNotFoundError:
            return
        current = struct.unpack_from("=I", answer, 4)[0]
        yield current
    raise OSError(errno.E2BIG, f"there are more than {_MAX_IDS} BPF objects")


def _map(map_id: int, layouts: Sequence[Layout]) -> SchedulerMap | int | None:
    """The scheduler in a map; its number if it is of another kind, None if it is gone."""
    try:
        with _opened(_MAP_GET_FD_BY_ID, map_id, _READ_ONLY) as descriptor:
            kind, value_size = _describe(descriptor)
            layout = next((each for each in layouts if each.value_size == value_size), None)
            if kind != _STRUCT_OPS or layout is None or value_size > _MAX_VALUE:
                return map_id
            return interpret(map_id, _value(descriptor, value_size), layout)
    except FileNotFoundError:
        return None


def interpret(map_id: int, value: bytes, layout: Layout) -> SchedulerMap:
    """The scheduler whose map has that value."""
    state = struct.unpack_from("=I", value, 4)[0]
    name = value[layout.name_at :].partition(b"\0")[0].decode(errors="replace")
    cgroup = 0
    if layout.sub_cgroup_at is not None:
        cgroup = struct.unpack_from("=Q", value, layout.sub_cgroup_at)[0]
    # 0 and 1, the root's own group, are a scheduler for the whole machine
    return SchedulerMap(map_id, name, is_registered=state == _REGISTERED, is_sub=cgroup > 1)


@contextmanager
def _opened(command: int, number: int, flags: int = 0) -> Iterator[int]:
    """The map or the link of that number."""
    descriptor = _call(command, ctypes.create_string_buffer(struct.pack("=III", number, 0, flags)))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _describe(descriptor: int) -> tuple[int, int]:
    """The type of a map, and the size of its values."""
    kind, _, _, value_size = struct.unpack_from("=IIII", _info(descriptor))
    return kind, value_size


def _info(descriptor: int) -> bytes:
    info = ctypes.create_string_buffer(_INFO_SIZE)
    _bpf(_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", descriptor, _INFO_SIZE, ctypes.addressof(info)))
    return info.raw


def _value(descriptor: int, size: int) -> bytes:
    key, value = ctypes.c_uint32(0), ctypes.create_string_buffer(size)
    places = ctypes.addressof(key), ctypes.addressof(value)
    _bpf(_MAP_LOOKUP_ELEM, struct.pack("=IIQQQ", descriptor, 0, *places, 0))
    return value.raw


def _bpf(command: int, attributes: bytes) -> bytes:
    """The attributes as the kernel left them."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    _call(command, buffer)
    return buffer.raw


def _call(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"schedkit does not support bpf(2) on {os.uname().machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
