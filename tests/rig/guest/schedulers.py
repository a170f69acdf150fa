"""Our own minimal sched_ext schedulers, compiled into static binaries that run anywhere.

`binary("fifo")` is the path of `scx_rig_fifo`; `catalog()` says what each one is good for. All of them
insert every task into the kernel's global queue and differ in how they start, end or misbehave.
The compiler and the libraries come from Debian, whatever the machine itself has installed. The key of
the cache entry is made of the sources alone, so that a guest, which has no network, finds the result.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rig.base import cache, processes
from rig.base.progress import step
from rig.build import debian

_SOURCES = Path(__file__).parent / "bpf"
_SWITCH_PARTIAL = 1 << 3
_LIBRARIES = ("libc6-dev", "linux-libc-dev", "libelf-dev", "zlib1g-dev", "libzstd-dev")


@dataclass(frozen=True)
class Scheduler:
    """One program of the rig that attaches a struct_ops, and what is special about it."""

    name: str
    does: str
    ops: str = ""  # empty: "rig_" and the name
    program: str = "scheduler"  # the BPF source
    prefix: str = "scx_rig_"
    version: str = "1.0.0"
    settings: Mapping[str, str] = field(default_factory=dict)  # macros over the ordinary ones

    @property
    def file_name(self) -> str:
        return f"{self.prefix}{self.name}"

    @property
    def ops_name(self) -> str:
        """What `/sys/kernel/sched_ext/root/ops` shows while it is attached."""
        return self.ops or f"rig_{self.name}"

    def defines(self) -> list[str]:
        usual = {
            "OPS_NAME": f'"{self.ops_name}"',
            "OPS_FLAGS": "0",
            "SECTION": '".struct_ops.link"',
            "TIMEOUT_MS": "10000",
        }
        return [f"-D{name}={value}" for name, value in {**usual, **self.settings}.items()]


_CATALOG = (
    Scheduler("fifo", "runs tasks first in, first out"),
    Scheduler(
        "alias",
        "is the FIFO under an ops name unlike its image's",
        ops="totally_different",
        version="2.0.0",
    ),
    Scheduler(
        "partial",
        "takes only tasks that ask for SCHED_EXT",
        settings={"OPS_FLAGS": str(_SWITCH_PARTIAL)},
    ),
    Scheduler(
        "staller",
        "on SIGUSR1, or --stall-after S seconds, never runs tasks named `victim` again",
        settings={"LOSES_VICTIMS": "1", "TIMEOUT_MS": "2000"},
    ),
    Scheduler("bad_init", "fails in init", settings={"INIT_ERROR": str(errno.ENODEV)}),
    Scheduler(
        "orphan",
        "is held by no link: it stays attached when its loader is killed",
        settings={"SECTION": '".struct_ops"'},
    ),
    Scheduler("stubborn", "ignores SIGTERM", settings={"IGNORES_SIGTERM": "1"}),
    Scheduler(
        "lingering",
        "stays alive with its link open after the kernel has ejected it",
        settings={"OUTLIVES_EJECTION": "1"},
    ),
    Scheduler(
        "hotplug", "attaches again, in the same process, after CPU hotplug", settings={"REATTACHES": "1"}
    ),
    Scheduler(
        "slow",
        "waits before it loads, 10 seconds or as --load-delay says",
        settings={"LOAD_DELAY_S": "10"},
    ),
    Scheduler(
        "tcp",
        "is no scheduler: it holds a struct_ops link of a TCP congestion control",
        program="tcp",
        prefix="rig_",
    ),
)


def catalog() -> Mapping[str, Scheduler]:
    """All of them, by name."""
    return {scheduler.name: scheduler for scheduler in _CATALOG}


def binary(name: str) -> Path:
    """The static binary of the scheduler of that name."""
    return built() / catalog()[name].file_name


def pause() -> Path:
    """A static binary that waits for SIGTERM: what holds a pod's namespaces."""
    return built() / "pause"


def foreign() -> Path:
    """An arm64 binary, which this machine cannot execute."""
    return built() / "foreign"


def built() -> Path:
    """The folder of all binaries, compiled when a source has changed."""
    texts = [file.read_bytes() for file in sorted(_SOURCES.iterdir()) if file.suffix in {".c", ".h"}]
    key = cache.digest(*texts, Path(__file__).read_bytes())
    return cache.entry("schedulers", key, _compile_all)


def _compile_all(folder: Path) -> None:
    toolchain = _toolchain()
    with step(f"schedulers: compiling {len(_CATALOG)} of them"):
        for scheduler in _CATALOG:
            _compile(toolchain, scheduler, folder)
        toolchain.link_static([_SOURCES / "pause.c"], folder / "pause")
        toolchain.link_foreign(_SOURCES / "foreign.c", folder / "foreign")


def _compile(toolchain: Toolchain, scheduler: Scheduler, folder: Path) -> None:
    program = folder / f"{scheduler.file_name}.bpf.o"
    toolchain.compile_bpf(_SOURCES / f"{scheduler.program}.bpf.c", program, scheduler.defines())
    carries = [*scheduler.defines(), f'-DPROGRAM="{program}"']
    toolchain.link_static([_SOURCES / "loader.c", *carries], folder / scheduler.file_name)


@dataclass(frozen=True)
class Toolchain:
    """clang and lld that run in place, with a folder of headers and static libraries."""

    tools: Path
    sysroot: Path
    libbpf: Path

    def compile_bpf(self, source: Path, output: Path, defines: Sequence[str]) -> None:
        """One BPF object with the type information that libbpf needs."""
        folders = [self.sysroot / "usr/include", self.sysroot / "usr/include/x86_64-linux-gnu"]
        headers = [f"-isystem{path}" for path in (*folders, self.libbpf / "usr/include")]
        flags = ["--target=bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-nostdlibinc"]
        flags.append(f"-ffile-prefix-map={_SOURCES}=.")  # the same bytes from every clone
        self._clang(*flags, *headers, *defines, "-c", source, "-o", output)

    def link_static(self, inputs: Sequence[str | Path], output: Path) -> None:
        """One program for this machine's architecture that needs no library at run time."""
        paths = [f"-isystem{self.libbpf}/usr/include", f"-L{self.libbpf}/usr/lib/x86_64-linux-gnu"]
        flags = ["-static", "-O2", "-s", "-Wall", "-Wextra", "-Werror", f"--sysroot={self.sysroot}"]
        libraries = ["-lbpf", "-lelf", "-lz", "-lzstd"]
        self._clang(*flags, *paths, *inputs, *libraries, "-o", output)

    def link_foreign(self, source: Path, output: Path) -> None:
        """One program for arm64 that needs neither library nor headers."""
        self._clang("--target=aarch64-linux-gnu", "-static", "-nostdlib", "-O2", "-s", source, "-o", output)

    def _clang(self, *arguments: str | Path) -> None:
        # lld by path: the machine may have no linker, and clang would look there
        linker = [] if "-c" in arguments else [f"--ld-path={self.tools / 'usr/bin/ld.lld'}"]
        search = os.environ | {"LD_LIBRARY_PATH": debian.library_path(self.tools)}
        processes.run([self.tools / "usr/bin/clang", *linker, *arguments], env=search, timeout_s=300)


def _toolchain() -> Toolchain:
    suite = debian.machine()
    runtime = max(package.name for package in suite.packages(r"libgcc-\d+-dev"))
    return Toolchain(
        tools=suite.tree("clang", ["clang", "lld"]),
        sysroot=suite.tree("sysroot", [*_LIBRARIES, runtime], needs=False),
        # 1.4 is the first that leaves out members of struct_ops that the kernel does not have
        libbpf=debian.newer().tree("libbpf", ["libbpf-dev"], needs=False),
    )
