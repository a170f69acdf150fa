"""What the catalog knows about a scheduler, as answers show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import join

import msgspec

from schedkit.model.catalog import CpuContract, Listed, Measured, Needs

_UNKNOWN = "not known"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler of the catalog; null is what nobody knows."""

    name: str
    image: str
    origin: str  # which catalog says so
    description: str | None
    documentation: str | None
    min_kernel: str | None
    ops_name: str | None
    watchdog_seconds: int | None
    stats: bool | None
    presets: Mapping[str, tuple[str, ...]]
    needs: NeedsFacts
    cpu_contract: CpuFacts | None
    architectures: tuple[str, ...] | None
    measured: bool | None
    measurement: MeasurementFacts | None  # null: schedkit did not measure it
    sources: tuple[str, ...]
    version: str | None  # that schedkit's recipe builds


class NeedsFacts(msgspec.Struct, frozen=True):
    """What the scheduler cannot work without."""

    host_pid: bool | None
    boot_config: bool | None
    writable_run: bool | None
    capabilities: tuple[str, ...] | None
    kernel_options: tuple[str, ...] | None  # of the kernel's config, without CONFIG_
    tracing: bool | None  # what the kernel can trace, in /sys/kernel/tracing


class CpuFacts(msgspec.Struct, frozen=True):
    """Which of a cgroup's CPU settings it honours."""

    honours: tuple[str, ...]
    honours_with: Mapping[str, tuple[str, ...]]
    note: str | None


class MeasurementFacts(msgspec.Struct, frozen=True):
    """What was measured, where and when, and what was seen."""

    version: str
    kernel: str
    machine: str
    date: str
    ops: str
    attach_seconds: float
    exit_code: int
    exit_words: str | None
    exit_reason: str | None
    stats_socket: str | None
    without: Mapping[str, str]


def facts(listed: Listed) -> Facts:
    """The entry in the words of answers."""
    entry = listed.entry
    plain = {field: getattr(entry, field) for field in _SAME}
    needs = entry.needs or Needs()
    return Facts(
        name=listed.name,
        image=entry.image_uri,
        origin=listed.origin,
        needs=NeedsFacts(**msgspec.structs.asdict(needs)),
        cpu_contract=_cpu(entry.cpu_contract),
        measured=entry.measured if entry.measured is None else bool(entry.measured),
        measurement=_measurement(entry.measured),
        **plain,
    )


_SAME = (
    "description",
    "documentation",
    "min_kernel",
    "ops_name",
    "watchdog_seconds",
    "stats",
    "presets",
    "architectures",
    "sources",
    "version",
)


def _cpu(contract: CpuContract | None) -> CpuFacts | None:
    return CpuFacts(contract.honours, contract.honours_with, contract.note) if contract else None


def _measurement(measured: Measured | bool | None) -> MeasurementFacts | None:  # noqa: FBT001 - as it is written
    return (
        msgspec.convert(msgspec.structs.asdict(measured), MeasurementFacts)
        if isinstance(measured, Measured)
        else None
    )


def rows(known: Facts) -> list[tuple[str, str]]:
    """The facts as a person reads them, one below the other."""
    watchdog = f"{known.watchdog_seconds} s" if known.watchdog_seconds else _UNKNOWN
    return [
        ("Description", known.description or _UNKNOWN),
        ("Documentation", known.documentation or _UNKNOWN),
        ("Kernel", f"{known.min_kernel} or newer" if known.min_kernel else _UNKNOWN),
        ("Ops name", known.ops_name or _UNKNOWN),
        ("Watchdog", watchdog),
        ("Statistics", answer(known.stats, "offered", "not offered")),
        ("Presets", "\n".join(_presets(known.presets)) or _UNKNOWN),
        ("Needs", "\n".join(_needs(known.needs)) or _UNKNOWN),
        ("CPU contract", "\n".join(_honoured(known.cpu_contract))),
        ("Architectures", ", ".join(known.architectures) if known.architectures else _UNKNOWN),
        ("Measured", _measured(known)),
        ("Facts from", "\n".join(known.sources) or _UNKNOWN),
        ("Catalog", known.origin),
    ]


def _measured(known: Facts) -> str:
    if (seen := known.measurement) is None:
        return answer(known.measured, "yes", "no")
    ended = f"{seen.exit_code}" + (f" ({seen.exit_words})" if seen.exit_words else "")
    lines = [
        f"version {seen.version} on kernel {seen.kernel}, {seen.date}",
        f"attached after {seen.attach_seconds:g} s ({seen.machine})",
        f"exit code after SIGTERM: {ended}",
    ]
    return "\n".join([*lines, *([f"statistics at {seen.stats_socket}"] if seen.stats_socket else [])])


def answer(known: bool | None, yes: str, no: str) -> str:  # noqa: FBT001 - it is the answer itself
    """A fact that may not be known."""
    return _UNKNOWN if known is None else yes if known else no


def _presets(presets: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{name}: {join(flags) or '(no flags)'}" for name, flags in presets.items()]


def _needs(needs: NeedsFacts) -> list[str]:
    wanted = {
        "the host's process ids": needs.host_pid,
        "the kernel's configuration in /boot": needs.boot_config,
        "a writable /run/scx": needs.writable_run,
        "access to /sys/kernel/tracing": needs.tracing,
    }
    lines = [
        what if is_needed else f"not needed: {what}"
        for what, is_needed in wanted.items()
        if is_needed is not None
    ]
    options = needs.kernel_options and [f"CONFIG_{one}" for one in needs.kernel_options]
    lines += _listed("capabilities", needs.capabilities, none="no capabilities")
    return lines + _listed("a kernel with", options, none="no further option in the kernel's config")


def _listed(what: str, names: Sequence[str] | None, *, none: str) -> list[str]:
    """Nothing when it is not known."""
    if names is None:
        return []
    return [f"{what} {', '.join(names)}" if names else none]


def _honoured(contract: CpuFacts | None) -> list[str]:
    if contract is None:
        return [_UNKNOWN]
    always = [f"honours {setting}" for setting in contract.honours]
    asked = [f"honours {setting} with {join(flags)}" for setting, flags in contract.honours_with.items()]
    note = [contract.note] if contract.note else []
    return [*always, *asked, *note] or ["ignores cpu.weight and cpu.max"]
