"""A virtual machine with a Debian kernel on top of this machine's own root, and commands in it.

Always TCG: a KVM that cannot run a stock kernel looks just like one that can. One thread for all
virtual CPUs: with two, a guest is slower on a machine of two cores. (In QEMU 7.2 two also raced with the
kernel's text patching, which each attach of a scheduler does many times.)

The guest cannot write to the host: its root is a read-only bind mount in a private mount
namespace, with a tmpfs above it inside the guest. Only `Guest.share` is writable.
"""

from __future__ import annotations

import itertools
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rig.base import addresses, cache, processes
from rig.base.errors import RigError, Unavailable
from rig.base.processes import Process
from rig.build import debian
from rig.guest import guestroot
from rig.guest.kernels import Kernel
from rig.session import reporting

GUEST_FILES = Path(__file__).parent / "files"
BOOT_TIMEOUT_S = 240  # 15 s on a quiet machine
PING_TIMEOUT_S = 30  # tenths of a second on a quiet machine
_CONSOLE_LINES = 25
_OUTPUT_CHARACTERS = 3000
# The plainest CPU, and a kernel without defences against leaky ones: under emulation, wide registers and each
# defence cost more than they save. With `-cpu max`, `schedctl status` took a third more of the host's time.
_CPU = "qemu64,+rdrand"
_CHEAP_KERNEL = "mitigations=off init_on_alloc=0"


# what the console of a dead kernel says, and of one that goes on but not everywhere. A lockup is no panic,
# although the kernel calls it a BUG: under emulation on a busy machine it may be mere slowness
_PANIC = r"Kernel panic|Oops:|kernel BUG at"
_LOCKUP = r"BUG: (soft|workqueue) lockup|hard LOCKUP|rcu: INFO: .* stall|blocked for more than"


class GuestError(RigError):
    """The guest panicked, hung or ended, or a command in it did not end; the message says which.

    It also says where the console log is kept.
    """


@dataclass(frozen=True)
class Outcome:
    """How a command in a guest ended."""

    exit_code: int
    output: str


@dataclass(frozen=True)
class Settings:
    """What a guest gets."""

    name: str = "guest"
    memory_mb: int = 2048
    cpus: int = 2
    network: bool = False
    forwards: Mapping[int, int] = field(default_factory=dict)  # loopback port of the host → port of the guest
    cmdline: str = ""
    boot_timeout_s: float = BOOT_TIMEOUT_S
    systemd_root: Path | None = None  # laid over the guest's root, in which systemd is then PID 1


class Guest:
    """One running VM. Use it as a context manager."""

    def __init__(self, kernel: Kernel, settings: Settings | None = None) -> None:
        self.kernel = kernel
        self.settings = settings or Settings()
        self.folder = processes.run_folder(f"vm-{self.settings.name}")
        self.share = self.folder / "share"
        self.console = self.folder / "console.log"
        self._numbers = itertools.count()
        self._answers: set[str] = set()
        self._heard = b""
        self._serial = socket.socket(socket.AF_UNIX)
        self._parts: list[Process] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Boot; returns when the guest takes commands. The summary of a test run names the kernel."""
        _require_machine()
        reporting.note(self.kernel.description)
        (self.share / "commands").mkdir(parents=True)
        systemd_root = self.settings.systemd_root
        if systemd_root is not None:
            shutil.copytree(systemd_root, self.share / "root", symlinks=True)
        tools = guestroot.tree(has_systemd=systemd_root is not None)
        for tag, source in (("host", Path("/")), ("tools", tools), ("share", self.share)):
            self._serve_folder(tag, source, writable=tag == "share")
        self._qemu = Process(self._command_line(), log=self.folder / "qemu.log", env=_qemu_environment())
        self._parts.append(self._qemu)
        processes.prefer(self._qemu.pid)  # it has one thread, and everybody waits for it
        self._qemu.await_ready((self.folder / "serial.sock").exists, timeout_s=30)
        self._serial.connect(str(self.folder / "serial.sock"))
        limit_s = self.settings.boot_timeout_s
        if not self._answers_within("up", limit_s):
            raise self.failure(f"did not come up within {limit_s:g} s")

    def run(self, command: str, *, timeout_s: float = 120) -> Outcome:
        """Run a shell command in the guest and wait for its end."""
        return self.await_end(self.begin(command), timeout_s=timeout_s)

    def begin(self, command: str, *, apart: bool = False) -> str:
        """Start a shell command in the guest; the name is for `await_end`, `has_ended` and `output`.

        With `apart`, what it says on stderr is not part of its output but in a file of its own.
        """
        name = f"c{next(self._numbers)}"
        if apart:
            self.errors_file(name).touch()
        self._file(name, "sh").write_text(command + "\n")
        try:
            self._serial.sendall(f"{name}\n".encode())
        except OSError as error:  # QEMU has closed its end
            raise self.failure("ended") from error
        return name

    def has_ended(self, name: str) -> bool:
        """Whether the command has ended; raises when the guest itself has."""
        self._listen(0.0)
        if name not in self._answers and self._qemu.exit_code() is not None:
            raise self.failure("ended")
        return name in self._answers

    def await_end(self, name: str, *, timeout_s: float) -> Outcome:
        """The outcome of a command begun before."""
        if not self._answers_within(name, timeout_s):
            raise self.lateness(name, timeout_s)
        return Outcome(int(self._file(name, "rc").read_text()), self.output(name))

    def output(self, name: str) -> str:
        """What a command has said so far."""
        file = self.output_file(name)
        return file.read_text(errors="replace") if file.exists() else ""

    def output_file(self, name: str) -> Path:
        """Where a command's output appears while it runs; not there before it has begun."""
        return self._file(name, "out")

    def errors_file(self, name: str) -> Path:
        """The same for the stderr of a command that was begun with `apart`."""
        return self._file(name, "err")

    def lateness(self, name: str, timeout_s: float) -> GuestError:
        """Why a command has not ended in time, and what it said so far."""
        command = self._file(name, "sh").read_text().strip()
        said = f"`{command}` said so far:\n{self.output(name)[-_OUTPUT_CHARACTERS:]}"
        return GuestError(f"{self.overrun(timeout_s)}\n{said}")

    def overrun(self, timeout_s: float) -> GuestError:
        """Why a command has not ended in time: it hangs, or the whole guest does."""
        if self._answers_within(self.begin("true"), PING_TIMEOUT_S):
            what = f"answers, but a command in it did not end within {timeout_s:g} s"
        else:
            what = f"hangs: it does not answer at all, {timeout_s:g} s after it was given a command"
        return self.failure(what)

    def stop(self) -> None:
        """Power off, or end it by force; its processes are gone afterwards."""
        if self._qemu.exit_code() is None:
            with suppress(OSError):  # it has just ended by itself
                self._serial.sendall(b"halt\n")
            self._qemu.wait(20)
        self.kill()

    def cpu_seconds(self) -> float:
        """What it has cost this machine so far."""
        return sum(processes.cpu_seconds(part.pid) for part in self._parts)

    def freeze(self) -> None:
        """Let no time pass in it: it neither answers nor ends."""
        self._qemu.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._qemu.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it by force."""
        self._serial.close()
        for part in reversed(self._parts):
            part.stop(grace_s=2)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str, ending: str) -> Path:
        return self.share / "commands" / f"{name}.{ending}"

    def _serve_folder(self, tag: str, source: Path, *, writable: bool) -> None:
        view = self.folder / f"{tag}-view"
        view.mkdir()
        daemon = _tools() / "usr/lib/qemu/virtiofsd"
        cached = "none" if writable else "always"
        options = f"source={view},cache={cached},sandbox=chroot"
        mounts = "; ".join(_bind_commands(source, view, writable=writable))
        script = f'set -e; {mounts}; exec "$0" "$@"'
        private = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script]
        argv = [*private, str(daemon), f"--socket-path={self._socket(tag)}", "-o", options]
        part = Process(argv, log=self.folder / f"{tag}.log", env=_qemu_environment())
        self._parts.append(part)
        part.await_ready(self._socket(tag).exists, timeout_s=30)

    def _socket(self, tag: str) -> Path:
        return self.folder / f"{tag}.sock"

    def _command_line(self) -> list[str]:
        memory = f"{self.settings.memory_mb}M"
        shares = [word for tag in ("host", "tools", "share") for word in self._share_device(tag)]
        return [
            str(_qemu() / "usr/bin/qemu-system-x86_64"),
            *(word for folder in _firmware() for word in ("-L", str(folder))),
            *("-M", "q35", "-accel", "tcg,thread=single", "-cpu", _CPU, "-no-reboot"),
            *("-smp", str(self.settings.cpus), "-m", memory),
            *("-object", f"memory-backend-memfd,id=mem,size={memory},share=on", "-numa", "node,memdev=mem"),
            *shares,
            *("-kernel", str(self.kernel.image), "-append", self._kernel_arguments()),
            *("-display", "none", "-monitor", "none", "-serial", f"file:{self.console}"),
            *("-chardev", f"socket,id=serial,path={self._socket('serial')},server=on,wait=off"),
            *("-serial", "chardev:serial"),
            *self._network(),
        ]

    def _share_device(self, tag: str) -> list[str]:
        chardev = f"socket,id=fs-{tag},path={self._socket(tag)}"
        return ["-chardev", chardev, "-device", f"vhost-user-fs-pci,chardev=fs-{tag},tag={tag}"]

    def _kernel_arguments(self) -> str:
        words = [
            "console=ttyS0 quiet loglevel=4 panic=-1 rootfstype=virtiofs root=host ro",
            # a busy host delivers the timer's interrupts too late for the kernel's test, which then panics
            "no_timer_check",
            _CHEAP_KERNEL,
            f"init={GUEST_FILES / 'init'}",
            f"rig.kernel={self.kernel.folder} rig.agent={GUEST_FILES / 'agent'}",
            f"rig.net={addresses.GUEST} rig.host={addresses.HOST_SEEN_FROM_GUESTS}"
            if self.settings.network
            else "",
            "rig.systemd=1 systemd.show_status=no" if self.settings.systemd_root else "",
            self.settings.cmdline,
        ]
        return " ".join(words)

    def _network(self) -> list[str]:
        if not self.settings.network:
            return ["-nic", "none"]
        pairs = self.settings.forwards.items()
        forwards = [f"hostfwd=tcp:127.0.0.1:{here}-:{there}" for here, there in pairs]
        return ["-nic", ",".join(["user,model=virtio-net-pci", *forwards])]

    def _answers_within(self, name: str, timeout_s: float) -> bool:
        """Wait for an answer; raises when the guest ends instead."""
        deadline = time.monotonic() + timeout_s
        while name not in self._answers:
            if self._qemu.exit_code() is not None:
                raise self.failure("ended")
            if time.monotonic() > deadline:
                return False
            self._listen(0.5)
        return True

    def _listen(self, timeout_s: float) -> None:
        """Take in what the agent has said; names are short, so that a line is never split for long."""
        self._serial.settimeout(max(timeout_s, 0.001))
        try:
            heard = self._serial.recv(4096)
        except (TimeoutError, ConnectionResetError):
            return
        self._heard += heard
        *lines, self._heard = self._heard.split(b"\n")
        self._answers.update(line.decode(errors="replace").strip() for line in lines)

    def failure(self, what: str) -> GuestError:
        """What happened to the guest, for a person: panic or not, and where the console log is kept."""
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        kept = keep_log(self.console, self.settings.name)
        told = f"{verdict(text, what)} (kernel {self.kernel.release}); {last_words(text, kept)}"
        return GuestError(f"{told}\n{self._qemu.tail(5)}".rstrip())


def verdict(console: str, what: str) -> str:
    """What became of a guest: what its console says weighs more than what it looked like from outside."""
    if re.search(_PANIC, console):
        return "the kernel panicked"
    if re.search(_LOCKUP, console):
        return f"the guest {what}; its kernel complains of a lockup"
    return f"the guest {what}"


def last_words(console: str, kept: Path) -> str:
    """The end of what its console says, and where all of it is; or that there is nothing to read."""
    if not console.strip():
        return "it wrote nothing to its console"
    tail = "\n".join(console.rstrip().splitlines()[-_CONSOLE_LINES:])
    return f"console log: {kept}\n{tail}"


def keep_log(log: Path, name: str) -> Path:
    """Copy a log to a place that outlives the run."""
    folder = cache.root() / "logs"
    folder.mkdir(exist_ok=True)
    kept = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    if log.exists():
        shutil.copyfile(log, kept)
    return kept


def programs() -> tuple[Path, Path]:
    """QEMU, and what it needs beside itself, unpacked for use on the host."""
    return _qemu(), _tools()


def _qemu() -> Path:
    """QEMU 10, not Debian 12's own 7.2, whose guests take more than twice as long to start a process.

    7.2 also leaves garbage in EFLAGS after cmpxchg16b, of which Debian's 6.12 dies within seconds. Without
    that instruction, kernels from 6.18 on cannot allocate for bpf_timer_init: no scheduler with a timer
    attaches.
    """
    return debian.newer().tree("qemu", ["qemu-system-x86", "qemu-system-data", "seabios"], needs=False)


def _tools() -> Path:
    """The libraries that fit the machine, firmware of network cards, and a virtiofsd, from its own suite."""
    return debian.machine().tree("qemu", ["qemu-system-x86", "qemu-system-common", "ipxe-qemu"])


def _firmware() -> tuple[Path, ...]:
    newer, own = programs()
    return newer / "usr/share/qemu", newer / "usr/share/seabios", own / "usr/lib/ipxe/qemu"


def _qemu_environment() -> Mapping[str, str]:
    return os.environ | {"LD_LIBRARY_PATH": debian.library_path(*programs())}


def _bind_commands(source: Path, view: Path, *, writable: bool) -> list[str]:
    """Shell commands that show `source` at `view`, read-only unless asked otherwise."""
    pairs = [(source, view)]
    if source == Path("/"):
        pairs += [(mount, view / mount.relative_to("/")) for mount in _mounts_in_use()]
    commands = [["mount", "--bind", str(here), str(there)] for here, there in pairs]
    if not writable:
        commands += [["mount", "-o", "remount,ro,bind", str(there)] for _, there in pairs]
    return [shlex.join(words) for words in commands]


def _mounts_in_use() -> list[Path]:
    """Other filesystems that hold the project, the cache or Python; a plain bind of / hides them."""
    folders = (GUEST_FILES, cache.root(), Path(sys.prefix), Path(sys.base_prefix))
    mounts = {_mount_point(folder.resolve()) for folder in folders} - {Path("/")}
    return sorted(mounts)


def _mount_point(path: Path) -> Path:
    while not path.is_mount():
        path = path.parent
    return path


def _require_machine() -> None:
    if platform.machine() != "x86_64":
        raise Unavailable("virtual machines", "the rig's kernels are for x86_64", "run on an x86_64 machine")
    processes.require_mounts("virtual machines", "virtiofsd and its mounts need root")
