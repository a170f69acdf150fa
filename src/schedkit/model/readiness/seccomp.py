"""What a container runtime's seccomp profile lets through."""

from __future__ import annotations

import msgspec


def allows_bpf(profile: bytes) -> bool | None:
    """Whether a runtime's profile lets a container with CAP_BPF alone call bpf(2); None: it is no profile."""
    try:
        rules = msgspec.json.decode(profile, type=_Profile).syscalls
    except (msgspec.DecodeError, RecursionError):
        return None
    about_bpf = [rule for rule in rules if "bpf" in rule.names and rule.action == "SCMP_ACT_ALLOW"]
    return any(not rule.includes.caps or "CAP_BPF" in rule.includes.caps for rule in about_bpf)


class _Conditions(msgspec.Struct):
    caps: list[str] = []


class _Rule(msgspec.Struct):
    names: list[str] = []
    action: str = ""
    includes: _Conditions = msgspec.field(default_factory=_Conditions)


class _Profile(msgspec.Struct):
    syscalls: list[_Rule]
