"""The kernel's small texts as values. These functions take anything and never raise.

Patterns are compiled when they are first used: `schedctl status` needs none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from schedkit.model.kernel.sched_ext import State

_OPTION = r"(?m)^(?:CONFIG_(\w+)=(.*)|# CONFIG_(\w+) is not set)$"
_RELEASE = r"(?m)^# Linux/\S+ (\d\S*) Kernel Configuration$"
_EFFECTIVE = r"(?m)^CapEff:\s*([0-9a-fA-F]{1,32})\s*$"
_ISOLCPUS = r"(?:^|\s)isolcpus=(\S*)"
_SYMBOL = rb"(?m) [tTwW] (scx_bpf_\w+)$"
_MAX_DIGITS = 18  # fits into 64 bits
_CONFIG_LIMIT = 4 << 20  # unpacked; real ones have 300 kB

_FLAGS_OF_ISOLCPUS = frozenset({"nohz", "domain", "managed_irq"})


def state(text: str) -> State:
    """One of the kernel's four words; `UNKNOWN` for any other."""
    word = text.strip()
    known = (State.DISABLED, State.ENABLING, State.ENABLED, State.DISABLING)
    return next((each for each in known if each.value == word), State.UNKNOWN)


def number(text: str | None) -> int | None:
    """A decimal number; None if it is none."""
    digits = (text or "").strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    return int(digits) if is_number else None


def events(text: str) -> dict[str, int]:
    """Every line of a name and a number."""
    pairs = (line.split() for line in text.splitlines())
    counts = ((pair[0], number(pair[1])) for pair in pairs if len(pair) == 2)
    return {name: count for name, count in counts if count is not None}


def config(content: bytes) -> dict[str, str]:
    """The options of a kernel config, packed or not, without `CONFIG_`; one that is not set is `n`."""
    text = _unpacked(content).decode(errors="replace")
    return {name or unset: value if name else "n" for name, value, unset in re.findall(_OPTION, text)}


def config_release(content: bytes) -> str:
    """The release that a config names in its first lines; empty: it does not."""
    found = re.search(_RELEASE, _unpacked(content)[:1000].decode(errors="replace"))
    return found[1] if found else ""


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content[:_CONFIG_LIMIT]
    import zlib  # noqa: PLC0415 - `status` reads no config

    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(content, _CONFIG_LIMIT)
    except zlib.error:
        return b""


def capabilities(status: str) -> frozenset[str] | None:
    """Those that are effective, from `/proc/self/status`; None if it does not say."""
    from schedkit.model.kernel.capabilities import CAPABILITIES  # noqa: PLC0415 - `schedctl status` needs none of them

    found = re.search(_EFFECTIVE, status)
    if found is None:
        return None
    bits = int(found[1], 16)
    return frozenset(name for bit, name in enumerate(CAPABILITIES) if bits >> bit & 1)


def isolated_from_scheduling(command_line: str) -> str:
    """The CPUs that `isolcpus=` takes from the scheduler's domains; empty: none.

    Without a flag, and with the flag `domain`, it does; with `nohz` or `managed_irq` alone it does not.
    """
    for value in re.findall(_ISOLCPUS, command_line):
        parts = value.split(",")
        flags = [part for part in parts if part in _FLAGS_OF_ISOLCPUS]
        cpus = ",".join(part for part in parts if part not in _FLAGS_OF_ISOLCPUS)
        if cpus and (not flags or "domain" in flags):
            return cpus
    return ""


def kfunc_symbols(symbols: bytes) -> frozenset[str]:
    """The functions of sched_ext for BPF that `/proc/kallsyms` lists."""
    return frozenset(name.decode() for name in re.findall(_SYMBOL, symbols))


def fields(text: str) -> Mapping[str, str]:
    """`name: value` lines, as in `/proc/PID/status` and `fdinfo`; the last of a name counts."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
