"""Whether a machine can run schedulers: a table of checks over what was observed.

Ids, severities and statuses are an interface. All checks run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from schedkit.model.readiness import checks
from schedkit.model.readiness.checks import Answer, Outcome
from schedkit.model.readiness.facts import Facts


class Severity(StrEnum):
    """What a failure means: a scheduler cannot run, or some cannot, or nothing."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """What one check found, as `schedctl doctor -o json` prints it."""

    id: str
    description: str
    severity: Severity
    status: Outcome
    detail: str
    remediation: str

    @property
    def is_blocking(self) -> bool:
        """Whether schedulers cannot run before it is mended."""
        return self.status is Outcome.FAIL and self.severity is Severity.ERROR


class Summary(msgspec.Struct, frozen=True):
    """Counts of findings."""

    passed: int
    failed: int
    skipped: int
    blocking: int


class Check(msgspec.Struct, frozen=True):
    """One question about a machine."""

    id: str
    description: str
    severity: Severity
    remediation: str
    answer: Callable[[Facts], Answer]


_NEWER_KERNEL = "boot a kernel with sched_ext: 6.12 or newer, built with CONFIG_SCHED_CLASS_EXT=y"
_REBUILT_KERNEL = (
    "boot another build of this kernel, or rebuild the kernel with a version of pahole other than 1.30"
)
_AS_ROOT = "run schedctl as root, for example with sudo, and not inside an unprivileged container"
_START_PODMAN = "install Podman if it is missing, then run `systemctl enable --now podman.socket`"
_START_ANY = f"{_START_PODMAN}; one runtime is enough, and containerd is chosen with `--driver containerd`"
_START_CONTAINERD = "install containerd if it is missing, then run `systemctl enable --now containerd`"

CHECKS: tuple[Check, ...] = (
    Check(
        "kernel.version",
        "The kernel is 6.12 or newer",
        Severity.ERROR,
        _NEWER_KERNEL,
        checks.kernel_is_new_enough,
    ),
    Check(
        "kernel.sched_ext",
        "The kernel has sched_ext",
        Severity.ERROR,
        _NEWER_KERNEL,
        checks.sched_ext_is_built_in,
    ),
    Check(
        "kernel.btf",
        "The kernel describes its types (BTF)",
        Severity.ERROR,
        "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y; /sys/kernel/btf/vmlinux must be readable",
        checks.btf_is_there,
    ),
    Check(
        "kernel.btf_kfuncs",
        "BTF correctly describes the functions that schedulers call",
        Severity.ERROR,
        _REBUILT_KERNEL,
        checks.btf_describes_functions_rightly,
    ),
    Check(
        "kernel.btf_complete",
        "BTF describes every function of sched_ext that the kernel has",
        Severity.WARN,
        _REBUILT_KERNEL,
        checks.btf_describes_all_functions,
    ),
    Check(
        "kernel.config",
        "The kernel is built with the options that sched_ext needs",
        Severity.ERROR,
        "boot a kernel that is built with these options",
        checks.config_has_what_sched_ext_needs,
    ),
    Check(
        "kernel.config_location",
        "The kernel's config is in a place where libbpf looks for it",
        Severity.WARN,
        "install the package with this kernel's config, so that /boot/config-$(uname -r) exists",
        checks.config_lies_where_libbpf_looks,
    ),
    Check(
        "kernel.isolcpus",
        "No CPU is isolated from the scheduler",
        Severity.ERROR,
        "remove isolcpus= from the kernel's command line and reboot; use cpuset partitions to isolate CPUs",
        checks.no_cpu_is_isolated,
    ),
    Check("caps.cap_bpf", "schedctl may load BPF programs", Severity.ERROR, _AS_ROOT, checks.has("CAP_BPF")),
    Check(
        "caps.cap_sys_admin",
        "schedctl may administer the machine",
        Severity.ERROR,
        _AS_ROOT,
        checks.has("CAP_SYS_ADMIN"),
    ),
    Check(
        "caps.cap_perfmon",
        "schedctl may trace the kernel",
        Severity.ERROR,
        _AS_ROOT,
        checks.has("CAP_PERFMON"),
    ),
    Check("runtime.podman_socket", "Podman answers", Severity.WARN, _START_PODMAN, checks.answers("podman")),
    Check(
        "runtime.containerd_socket",
        "containerd answers",
        Severity.WARN,
        _START_CONTAINERD,
        checks.answers("containerd"),
    ),
    Check(
        "runtime.any",
        "A container runtime answers",
        Severity.ERROR,
        _START_ANY,
        checks.some_runtime_answers,
    ),
    Check(
        "runtime.version",
        "Container runtimes have versions that schedkit is tested with",
        Severity.WARN,
        "install Podman 4.3 or newer, or containerd 1.6 or newer",
        checks.runtimes_are_new_enough,
    ),
    Check(
        "runtime.seccomp",
        "Containers that are not privileged may load BPF programs",
        Severity.INFO,
        "nothing to do for schedctl: its containers run without this profile; "
        "for other containers, install a newer containers-common",
        checks.seccomp_lets_bpf_through,
    ),
    Check(
        "image.found",
        "The image can be read where it is published",
        Severity.ERROR,
        "`schedctl info IMAGE` says why; while the image cannot be read, other checks use only the catalog",
        checks.image_is_found,
    ),
    Check(
        "image.min_kernel",
        "The kernel is new enough for the image",
        Severity.ERROR,
        "boot a newer kernel, or choose an older version of the image: `schedctl versions NAME`",
        checks.kernel_suits_the_image,
    ),
    Check(
        "image.architecture",
        "The image is for this machine's architecture",
        Severity.ERROR,
        "choose an image that is built for this architecture",
        checks.architecture_suits_the_image,
    ),
    Check(
        "image.config",
        "The kernel is built with the options that the image needs",
        Severity.ERROR,
        "boot a kernel that is built with these options, or choose another scheduler: `schedctl list`",
        checks.config_suits_the_image,
    ),
    Check(
        "image.kfuncs",
        "The kernel has every function that the image calls",
        Severity.ERROR,
        "boot a newer kernel, or choose another version of the image: `schedctl versions NAME`",
        checks.kernel_has_what_the_image_calls,
    ),
    Check(
        "image.boot_config",
        "The image can read the kernel's config",
        Severity.ERROR,
        "install the package with this kernel's config, so that /boot/config-$(uname -r) exists",
        checks.config_is_there_for_the_image,
    ),
    Check(
        "image.tracing",
        "The image can read /sys/kernel/tracing",
        Severity.ERROR,
        "`mount -t tracefs tracefs /sys/kernel/tracing`; if that fails, boot a kernel with CONFIG_FTRACE=y",
        checks.tracing_is_there_for_the_image,
    ),
    Check(
        "image.capabilities",
        "schedctl has the capabilities that the image needs",
        Severity.ERROR,
        _AS_ROOT,
        checks.capabilities_suit_the_image,
    ),
)


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Every check's finding, in the order of the table; those about an image only when there is one."""
    asked = (check for check in CHECKS if facts.image or not check.id.startswith("image."))
    return tuple(_finding(check, *check.answer(facts)) for check in asked)


def _finding(check: Check, outcome: Outcome, detail: str, remediation: str) -> Finding:
    remedy = remediation or check.remediation
    return Finding(check.id, check.description, check.severity, outcome, detail, remedy)


def summarize(findings: Iterable[Finding]) -> Summary:
    """How many there are of each."""
    every = list(findings)
    counts = {outcome: sum(each.status is outcome for each in every) for outcome in Outcome}
    blocking = sum(each.is_blocking for each in every)
    return Summary(counts[Outcome.PASS], counts[Outcome.FAIL], counts[Outcome.SKIP], blocking)
