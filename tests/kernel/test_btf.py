"""The rig's good BTF is a real kernel's, and the bad ones are bad for a real kernel, too."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import pytest

from rig.guest import btf, kernels
from rig.guest.btf import Btf

pytestmark = pytest.mark.kernel("7")

SYS_BPF = 321  # on x86_64, the only machine the guests are for
BPF_BTF_LOAD = 18
INSERT = "scx_bpf_dsq_insert"
# no kernel passes this one an argument of its own, so that it is sound even in a stand-in with malformed BTF
ALWAYS_SOUND = "scx_bpf_dsq_insert_vtime"


def prepare_on_host() -> None:
    btf.obtain("7")


def refusal(file: bytes) -> str | None:
    """The name of the error with which the running kernel refuses to load a BTF; None when it takes it."""
    content = ctypes.create_string_buffer(file, len(file))
    attributes = struct.pack("<QQIIII", ctypes.addressof(content), 0, len(file), 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(SYS_BPF, BPF_BTF_LOAD, attributes, len(attributes))
    if descriptor < 0:
        return errno.errorcode[ctypes.get_errno()]
    os.close(descriptor)
    return None


@pytest.fixture(scope="module")
def good() -> bytes:
    return btf.RUNNING.read_bytes()


@pytest.fixture(scope="module")
def sound(good: bytes) -> dict[str, tuple[str, ...]]:
    """The kfuncs of sched_ext and their parameters."""
    return Btf.parse(good).prototypes("scx_bpf_")


def test_the_stored_btf_is_the_running_kernels(good: bytes, kernel_kind: str) -> None:
    assert btf.obtain(kernel_kind).read_bytes() == good


def test_a_kernel_that_keeps_its_promise_has_sound_kfuncs(
    sound: dict[str, tuple[str, ...]], kernel_kind: str
) -> None:
    public = {name: names for name, names in sound.items() if not name.endswith("_impl")}
    malformed = [name for name, parameters in public.items() if "aux" in parameters]

    assert public[INSERT][:4] == ("p", "dsq_id", "slice", "enq_flags")
    assert malformed == [] or kernels.obtain(kernel_kind).note is not None


def test_a_malformed_kfunc_differs_in_this_kfunc_only_and_the_kernel_cannot_tell(
    good: bytes, sound: dict[str, tuple[str, ...]]
) -> None:
    bad = btf.with_malformed_kfunc(good, ALWAYS_SOUND)

    changed = {ALWAYS_SOUND: (*sound[ALWAYS_SOUND], "aux")}
    assert Btf.parse(bad).prototypes("scx_bpf_") == sound | changed
    assert refusal(bad) is None


def test_a_missing_kfunc_is_missing_and_nothing_else_is(
    good: bytes, sound: dict[str, tuple[str, ...]]
) -> None:
    bad = btf.without_kfunc(good, INSERT)

    assert Btf.parse(bad).prototypes("scx_bpf_") == {
        name: names for name, names in sound.items() if name != INSERT
    }
    assert refusal(bad) is None


def test_the_kernel_takes_its_own_btf(good: bytes) -> None:
    assert refusal(good) is None


def test_the_kernel_refuses_a_truncated_btf(good: bytes) -> None:
    assert refusal(btf.truncated(good)) == "EINVAL"


def test_the_kernel_refuses_what_is_no_btf() -> None:
    assert refusal(btf.GARBAGE) == "EINVAL"
