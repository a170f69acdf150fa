"""What is known about a machine: its kernel, its container runtimes, and what an image wants of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from schedkit.model.kernel.btf import BtfReading
from schedkit.model.kernel.sched_ext import State


class Config(msgspec.Struct, frozen=True):
    """A kernel's build configuration."""

    options: Mapping[str, str]  # without `CONFIG_`
    path: str
    is_found_by_libbpf: bool  # it looks in /proc/config.gz and /boot alone
    problem: str = ""  # why there are no options; empty: there are


class KernelFacts(msgspec.Struct, frozen=True):
    """What is known about a kernel. None: it was not looked at, or does not say."""

    release: str = ""
    architecture: str = ""
    state: State | None = None  # None: this kernel does not run
    btf: BtfReading | None = None
    symbols: frozenset[str] = frozenset()  # the functions for BPF that it has; none: it hides them
    config: Config | None = None
    capabilities: frozenset[str] | None = None  # ours
    isolated_cpus: str = ""
    shows_tracing: bool | None = None  # in /sys/kernel/tracing, where it lists what can be traced


class RuntimeFacts(msgspec.Struct, frozen=True):
    """What is known about a container runtime."""

    name: str
    socket: str
    problem: str = ""  # why it does not answer; empty: it does
    version: str = ""
    allows_bpf: bool | None = None  # to containers with CAP_BPF alone; None: not known
    remedy: str = ""  # of the problem; empty: it is to be started


class ImageNeeds(msgspec.Struct, frozen=True):
    """What one image needs of a machine, by its labels and by the catalog."""

    name: str
    min_kernel: str = ""  # empty: nobody says
    architectures: tuple[str, ...] = ()  # as the kernel names them; empty: nobody says
    options: tuple[str, ...] = ()  # of the kernel's config
    reads_config: bool = False  # of the running kernel, to fit itself to it
    reads_tracing: bool = False  # what the running kernel can trace
    capabilities: tuple[str, ...] = ()  # with their CAP_; empty: nobody says
    kfuncs: tuple[
        str, ...
    ] = ()  # functions of sched_ext that its programs cannot do without; empty: not known
    unread: str = ""  # why its programs could not be looked at although the image could
    problem: str = ""  # why the image could not be looked at; then only the catalog speaks


class Facts(msgspec.Struct, frozen=True):
    """All that the checks look at."""

    kernel: KernelFacts
    runtimes: tuple[RuntimeFacts, ...] | None = None  # None: they are not asked about
    image: ImageNeeds | None = None
