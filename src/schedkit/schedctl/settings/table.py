"""What a user may decide once for all calls: one table, of which everything about it follows.

Flags, environment variables, keys of configuration files, their defaults and their documentation are all
made from `SETTINGS`. What is decided before the verb reaches it as `Settings`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from schedkit.model.host.time_limits import GRACE_S, TIMEOUT_S

Kind: TypeAlias = Literal["text", "choice", "path", "place", "words", "seconds", "switch"]
Value: TypeAlias = str | float | bool | tuple[str, ...] | None

DRIVERS = ("podman", "containerd")
FORMATS = ("text", "json", "yaml")
LONGEST_S = 86_400.0  # that a user may say: a day


class Settings(NamedTuple):
    """What is said before the verb."""

    driver: str = "podman"
    socket: str | None = None  # None: the one of `podman_socket` or `containerd_socket`
    podman_socket: str = "/run/podman/podman.sock"
    containerd_socket: str = "/run/containerd/containerd.sock"
    catalog: str | None = None  # None: none but the shipped and the updated one
    registry_ca: str | None = None  # authorities to trust beside the system's
    insecure_registries: tuple[str, ...] = ()  # hosts that are asked without TLS; loopback always is
    registry_mirrors: tuple[str, ...] = ()  # ORIGIN=COPY: where else images are read, and before their origin
    layout: str | None = None  # a folder that images are read from; None: they come from registries


class Setting(NamedTuple):
    """One decision, and every way to make it."""

    name: str  # of the parameter
    help: str
    flags: tuple[str, ...]
    variable: str
    key: str | None = None  # in configuration files; None: it must be said each time
    kind: Kind = "text"
    default: Value = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def is_before_the_verb(self) -> bool:
        """Whether its flag is one of `schedctl` itself."""
        return self.name in Settings._fields


_USUAL = Settings()
SETTINGS: tuple[Setting, ...] = (
    Setting(
        "driver",
        "The runtime that runs the containers.",
        ("-d", "--driver"),
        "SCHEDCTL_DRIVER",
        "driver",
        kind="choice",
        choices=DRIVERS,
        default=_USUAL.driver,
    ),
    # not in files: there it would also be taken for that of a driver which is chosen by a flag
    Setting("socket", "The driver's socket.", ("--socket",), "SCHEDCTL_SOCKET", metavar="PATH"),
    Setting(
        "podman_socket",
        "Podman's socket.",
        ("--podman-socket",),
        "SCHEDCTL_PODMAN_SOCKET",
        "podman-socket",
        kind="path",
        metavar="PATH",
        default=_USUAL.podman_socket,
    ),
    Setting(
        "containerd_socket",
        "containerd's socket.",
        ("--containerd-socket",),
        "SCHEDCTL_CONTAINERD_SOCKET",
        "containerd-socket",
        kind="path",
        metavar="PATH",
        default=_USUAL.containerd_socket,
    ),
    Setting(
        "catalog",
        "A catalog that overrides all others.",
        ("--catalog",),
        "SCHEDCTL_CATALOG",
        "catalog",
        kind="place",
        metavar="PATH|URL",
    ),
    Setting(
        "registry_ca",
        "CA certificates to trust for registries, besides the system's.",
        ("--registry-ca",),
        "SCHEDCTL_REGISTRY_CA",
        "registry-ca",
        kind="path",
        metavar="FILE",
    ),
    Setting(
        "insecure_registries",
        "A registry to use without TLS.",
        ("--insecure-registry",),
        "SCHEDCTL_INSECURE_REGISTRY",
        "insecure-registries",
        kind="words",
        default=(),
        metavar="HOST",
    ),
    Setting(
        "registry_mirrors",
        "Look for images of ORIGIN in COPY first.",
        ("--registry-mirror",),
        "SCHEDCTL_REGISTRY_MIRROR",
        "registry-mirrors",
        kind="words",
        default=(),
        metavar="ORIGIN=COPY",
    ),
    Setting(
        "layout",
        "Read images only from this OCI layout.",
        ("--layout",),
        "SCHEDCTL_LAYOUT",
        "layout",
        kind="path",
        metavar="FOLDER",
    ),
    Setting(
        "trust_policy",
        "File that says whom to trust. If left out, schedkit's own workflows are trusted.",
        ("--trust-policy",),
        "SCHEDCTL_TRUST_POLICY",
        "trust-policy",
        kind="path",
        metavar="PATH",
    ),
    # not in files: who gives up signatures for good writes a policy, and reads there what it means
    Setting(
        "allow_unsigned",
        "Do not verify who signed the image.",
        ("--allow-unsigned",),
        "SCHEDCTL_ALLOW_UNSIGNED",
        kind="switch",
        default=False,
    ),
    Setting(
        "least_privilege",
        "Give the scheduler only CAP_BPF, CAP_PERFMON and what the catalog lists.",
        ("--least-privilege",),
        "SCHEDCTL_LEAST_PRIVILEGE",
        "least-privilege",
        kind="switch",
        default=False,
    ),
    Setting(
        "timeout_s",
        "Seconds that the kernel may take to confirm a scheduler.",
        ("--timeout",),
        "SCHEDCTL_TIMEOUT",
        "timeout",
        kind="seconds",
        default=TIMEOUT_S,
        metavar="SECONDS",
    ),
    Setting(
        "grace_s",
        "Seconds that a scheduler may take to end before it is killed.",
        ("--grace",),
        "SCHEDCTL_GRACE",
        "grace",
        kind="seconds",
        default=GRACE_S,
        metavar="SECONDS",
    ),
    Setting(
        "output",
        "Format of the answer.",
        ("-o", "--output"),
        "SCHEDCTL_OUTPUT",
        "output",
        kind="choice",
        choices=FORMATS,
        default="text",
    ),
)
