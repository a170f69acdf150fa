"""What a manager is told when it starts, and how such words are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_OFF = "0"
# as Go's strconv.ParseBool reads them: manifests written for the Go sked have any of these
_WORDS = {
    True: frozenset({"1", "t", "T", "TRUE", "true", "True"}),
    False: frozenset({"0", "f", "F", "FALSE", "false", "False"}),
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str | None  # None: on every address of the machine
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every flag of `sked manager`."""

    kubeconfig: Path | None  # None: KUBECONFIG, the pod's own, or ~/.kube/config
    context: str | None  # None: the kubeconfig's current one
    namespace: str | None  # None: the pod's own, or the context's
    leader_elect: bool
    health_probe_bind_address: Address | None  # None: no probes are served
    metrics_bind_address: Address | None  # None: no metrics are served
    metrics_secure: bool
    metrics_cert_path: Path | None  # None: a certificate that nobody signed
    enable_http2: bool
    trust_mode: str  # the least strict that counts
    default_trust_mode: str  # where nobody wrote rules, unless trust_mode is stricter
    trust_config: Path | None  # None: nobody wrote rules
    trust_interval: float  # seconds
    registry_auth: Path | None  # None: registries are asked without a login
    registry_ca: Path | None  # None: the system's authorities alone
    insecure_registry: tuple[str, ...]
    log_format: str
    log_level: str


def variable_of(flag: str) -> str:
    """The environment variable that says the same as a flag, which is named without its dashes."""
    return f"SKED_{flag.replace('-', '_').upper()}"


def parse_bool(text: str) -> bool:
    """Read a word for yes or no; raise `ValueError` with those there are."""
    for value, words in _WORDS.items():
        if text in words:
            return value
    raise ValueError(f"{text!r} is neither true nor false: write true or false")


def parse_address(text: str) -> Address | None:
    """Read `host:port` or `:port`; None for `0`, which turns a server off."""
    if text == _OFF:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address: write host:port, :port for all addresses, 0 for off")
    return Address(host or None, int(port))
