"""Whether a machine is ready: each check fails for what it is about, and says what to do."""

from __future__ import annotations

import msgspec
import pytest

from schedkit.model.kernel.btf import ESSENTIAL_KFUNCS, BtfReading
from schedkit.model.kernel.sched_ext import State
from schedkit.model.readiness import seccomp
from schedkit.model.readiness.checks import REQUIRED_OPTIONS
from schedkit.model.readiness.facts import Config, Facts, ImageNeeds, KernelFacts, RuntimeFacts
from schedkit.model.readiness.table import CHECKS, Finding, Severity, examine, summarize

CONTRACT = {
    "kernel.version",
    "kernel.sched_ext",
    "kernel.btf",
    "kernel.config",
    "caps.cap_bpf",
    "caps.cap_sys_admin",
    "caps.cap_perfmon",
    "runtime.podman_socket",
    "runtime.containerd_socket",
    "runtime.any",
}
KFUNCS = {group[0]: ("p", "flags") for group in ESSENTIAL_KFUNCS}
CONFIG = Config(dict.fromkeys(REQUIRED_OPTIONS, "y"), "/boot/config-6.18.15", is_found_by_libbpf=True)
KERNEL = KernelFacts(
    release="6.18.15",
    architecture="x86_64",
    state=State.DISABLED,
    btf=BtfReading(kfuncs=KFUNCS),
    symbols=frozenset(KFUNCS),
    config=CONFIG,
    capabilities=frozenset({"CAP_BPF", "CAP_SYS_ADMIN", "CAP_PERFMON"}),
    shows_tracing=True,
)
PODMAN = RuntimeFacts("podman", "/run/podman/podman.sock", version="4.3.1", allows_bpf=True)
CONTAINERD = RuntimeFacts("containerd", "/run/containerd/containerd.sock", version="1.6.20", allows_bpf=True)
IMAGE = ImageNeeds("scx_rusty", "6.12", ("x86_64", "aarch64"))
READY = Facts(KERNEL, (PODMAN, CONTAINERD), IMAGE)


def kernel(**changes: object) -> Facts:
    return msgspec.structs.replace(READY, kernel=msgspec.structs.replace(KERNEL, **changes))


def runtimes(*given: RuntimeFacts) -> Facts:
    return msgspec.structs.replace(READY, runtimes=given)


def image(**needs: object) -> Facts:
    return msgspec.structs.replace(READY, image=msgspec.structs.replace(IMAGE, **needs))


def failures(facts: Facts) -> dict[str, Finding]:
    return {finding.id: finding for finding in examine(facts) if finding.status.value == "fail"}


def test_a_machine_that_has_everything_passes_every_check_that_applies() -> None:
    demanding = image(
        options=("BPF",),
        reads_config=True,
        reads_tracing=True,
        capabilities=("CAP_BPF",),
        kfuncs=("scx_bpf_kick_cpu",),
    )

    statuses = {finding.id: finding.status.value for finding in examine(demanding)}

    assert statuses == dict.fromkeys((check.id for check in CHECKS), "pass")


def test_what_nobody_knows_about_an_image_is_not_checked() -> None:
    skipped = {finding.id for finding in examine(READY) if finding.status.value == "skip"}

    assert skipped == {
        "image.config",
        "image.kfuncs",
        "image.boot_config",
        "image.tracing",
        "image.capabilities",
    }


def test_who_may_not_look_does_not_say_that_nothing_can_be_traced() -> None:
    hidden = msgspec.structs.replace(
        image(reads_tracing=True), kernel=msgspec.structs.replace(KERNEL, shows_tracing=None)
    )

    assert failures(hidden) == {}


def test_the_contracts_checks_are_there_and_no_id_is_used_twice() -> None:
    ids = [check.id for check in CHECKS]

    assert set(ids) >= CONTRACT
    assert len(ids) == len(set(ids))


def test_sockets_are_warnings_and_having_neither_is_an_error() -> None:
    severities = {check.id: check.severity for check in CHECKS}

    assert severities["runtime.podman_socket"] is Severity.WARN
    assert severities["runtime.containerd_socket"] is Severity.WARN
    assert severities["runtime.any"] is Severity.ERROR


DEAD_PODMAN = msgspec.structs.replace(PODMAN, problem="no such file")
DEAD_CONTAINERD = msgspec.structs.replace(CONTAINERD, problem="connection refused")
MALFORMED = BtfReading(kfuncs=KFUNCS | {"scx_bpf_kick_cpu": ("cpu", "flags", "aux")})
MISSING = BtfReading(kfuncs={name: KFUNCS[name] for name in KFUNCS if name != "scx_bpf_create_dsq"})
NO_SCHED_EXT = Config(
    dict(CONFIG.options) | {"SCHED_CLASS_EXT": "n"}, "/boot/config-6.11", is_found_by_libbpf=True
)
HIDDEN = msgspec.structs.replace(CONFIG, path="/lib/modules/6.18.15/config", is_found_by_libbpf=False)


@pytest.mark.parametrize(
    ("facts", "failed", "detail"),
    [
        pytest.param(
            kernel(release="6.11.9", state=State.ABSENT),
            {"kernel.version", "kernel.sched_ext", "image.min_kernel"},
            "6.11.9 predates sched_ext, which came with 6.12",
            id="an old kernel",
        ),
        pytest.param(
            kernel(state=State.ABSENT),
            {"kernel.sched_ext"},
            "there is no /sys/kernel/sched_ext",
            id="a kernel built without it",
        ),
        pytest.param(
            kernel(release="6.11.9", state=State.UNKNOWN),
            {"kernel.version", "kernel.sched_ext", "image.min_kernel"},
            "6.11.9 predates sched_ext, which came with 6.12",
            id="a kernel that cannot be asked",
        ),
        pytest.param(
            kernel(btf=BtfReading(problem="/sys/kernel/btf/vmlinux cannot be read")),
            {"kernel.btf"},
            "/sys/kernel/btf/vmlinux cannot be read",
            id="no BTF",
        ),
        pytest.param(
            kernel(btf=MALFORMED),
            {"kernel.btf_kfuncs"},
            "wrongly described functions: scx_bpf_kick_cpu",
            id="a malformed function",
        ),
        pytest.param(
            kernel(btf=MISSING),
            {"kernel.btf_complete"},
            "missing functions: scx_bpf_create_dsq",
            id="a missing function that many schedulers call",
        ),
        pytest.param(
            kernel(symbols=frozenset({*KFUNCS, "scx_bpf_rare"})),
            {"kernel.btf_complete"},
            "missing functions: scx_bpf_rare",
            id="a missing function that few need",
        ),
        pytest.param(
            kernel(config=NO_SCHED_EXT),
            {"kernel.config"},
            "not set: CONFIG_SCHED_CLASS_EXT",
            id="a config without it",
        ),
        pytest.param(
            kernel(config=None),
            {"kernel.config_location"},
            "the kernel's config was not found",
            id="no config",
        ),
        pytest.param(
            kernel(config=HIDDEN),
            {"kernel.config_location"},
            "the config is only in /lib/modules/6.18.15/config",
            id="a config where libbpf does not look",
        ),
        pytest.param(
            kernel(isolated_cpus="2-3"),
            {"kernel.isolcpus"},
            "isolcpus= takes CPUs 2-3 from the scheduler",
            id="isolated CPUs",
        ),
        pytest.param(
            kernel(capabilities=frozenset({"CAP_BPF", "CAP_SYS_ADMIN"})),
            {"caps.cap_perfmon"},
            "CAP_PERFMON is not effective",
            id="a capability",
        ),
        pytest.param(
            runtimes(DEAD_PODMAN, CONTAINERD),
            {"runtime.podman_socket"},
            "/run/podman/podman.sock: no such file",
            id="no Podman",
        ),
        pytest.param(
            runtimes(DEAD_PODMAN, DEAD_CONTAINERD),
            {"runtime.podman_socket", "runtime.containerd_socket", "runtime.any"},
            "/run/podman/podman.sock: no such file",
            id="no runtime",
        ),
        pytest.param(
            runtimes(msgspec.structs.replace(PODMAN, version="3.4.4")),
            {"runtime.version"},
            "podman 3.4.4: older than any version tested with schedkit",
            id="an old Podman",
        ),
        pytest.param(
            runtimes(msgspec.structs.replace(PODMAN, allows_bpf=False)),
            {"runtime.seccomp"},
            "podman lets containers call bpf(2) only with CAP_SYS_ADMIN",
            id="a strict seccomp profile",
        ),
        pytest.param(
            image(min_kernel="7.1"),
            {"image.min_kernel"},
            "scx_rusty needs kernel 7.1; this is 6.18.15",
            id="an image for newer kernels",
        ),
        pytest.param(
            image(architectures=("aarch64",)),
            {"image.architecture"},
            "scx_rusty is for aarch64; this machine is x86_64",
            id="an image for other machines",
        ),
        pytest.param(
            image(options=("KALLSYMS_ALL",)),
            {"image.config"},
            "not set: CONFIG_KALLSYMS_ALL",
            id="an image that needs more of the kernel",
        ),
        pytest.param(
            image(capabilities=("CAP_BPF", "CAP_SYS_NICE")),
            {"image.capabilities"},
            "not effective: CAP_SYS_NICE",
            id="an image that needs more than we may do",
        ),
        pytest.param(
            image(kfuncs=("scx_bpf_kick_cpu", "scx_bpf_not_yet")),
            {"image.kfuncs"},
            "missing or wrongly described functions: scx_bpf_not_yet",
            id="an image that calls what this kernel has not",
        ),
        pytest.param(
            image(problem="registry.example could not be reached"),
            {"image.found"},
            "registry.example could not be reached",
            id="an image that nobody can look at",
        ),
        pytest.param(
            msgspec.structs.replace(
                image(reads_config=True), kernel=msgspec.structs.replace(KERNEL, config=None)
            ),
            {"kernel.config_location", "image.boot_config"},
            "the kernel's config was not found",
            id="an image that reads the kernel's config, which is nowhere",
        ),
        pytest.param(
            msgspec.structs.replace(
                image(reads_tracing=True), kernel=msgspec.structs.replace(KERNEL, shows_tracing=False)
            ),
            {"image.tracing"},
            "scx_rusty reads /sys/kernel/tracing, but nothing is mounted there",
            id="an image that reads what can be traced, which is not mounted",
        ),
    ],
)
def test_what_is_missing_fails_its_own_checks_and_no_others(
    facts: Facts, failed: set[str], detail: str
) -> None:
    found = failures(facts)

    assert set(found) == failed
    assert next(iter(found.values())).detail == detail
    assert all(finding.remediation for finding in found.values())


def test_who_may_not_ask_a_runtime_is_not_told_to_start_it() -> None:
    socket = PODMAN.socket
    closed = msgspec.structs.replace(PODMAN, problem=f"this user may not use {socket}", remedy="run as root")

    found = failures(runtimes(closed, DEAD_CONTAINERD))

    assert found["runtime.podman_socket"].detail == f"this user may not use {socket}"
    assert found["runtime.podman_socket"].remediation == found["runtime.any"].remediation == "run as root"
    assert "systemctl" in found["runtime.containerd_socket"].remediation


def test_a_backported_sched_ext_is_new_enough() -> None:
    assert "kernel.version" not in failures(kernel(release="5.14.0-el9"))


def test_without_symbols_what_most_schedulers_call_is_still_looked_for() -> None:
    assert set(failures(kernel(btf=MISSING, symbols=frozenset()))) == {"kernel.btf_complete"}


def test_a_missing_function_does_not_block_schedulers_that_do_not_call_it() -> None:
    assert summarize(examine(kernel(btf=MISSING))).blocking == 0


def test_a_kernel_whose_types_are_too_new_for_us_is_not_blamed() -> None:
    new = kernel(btf=BtfReading(novelty="type 7 is of kind 99, which is unknown"))
    skipped = {finding.id for finding in examine(new) if finding.status.value == "skip"}

    assert failures(new) == {}
    assert skipped >= {"kernel.btf", "kernel.btf_kfuncs", "kernel.btf_complete"}


@pytest.mark.parametrize(
    ("btf", "why"),
    [
        (BtfReading(), "the BTF describes no function of sched_ext"),
        (BtfReading(problem="it is cut off"), "there is no BTF to check"),
        (BtfReading(novelty="type 7 is of kind 99"), "the format of the BTF is newer than schedkit can read"),
    ],
)
def test_what_cannot_be_looked_for_in_btf_is_passed_over_for_the_same_reason(
    btf: BtfReading, why: str
) -> None:
    said = {finding.id: finding.detail for finding in examine(kernel(btf=btf))}

    assert (said["kernel.btf_kfuncs"], said["kernel.btf_complete"]) == (why, why)


def test_a_file_that_is_no_config_fails_and_is_named() -> None:
    wrong = Config({}, "/tmp/wrong", is_found_by_libbpf=False, problem="/tmp/wrong is not a kernel config")

    found = failures(Facts(KernelFacts(config=wrong)))

    assert set(found) == {"kernel.config"}
    assert found["kernel.config"].detail == "/tmp/wrong is not a kernel config"


@pytest.mark.parametrize(
    ("wanted", "is_enough"), [("6.18", True), ("6.18.15", True), ("6.18.16", False), ("6.19", False)]
)
def test_an_image_may_need_a_patch_level(wanted: str, is_enough: bool) -> None:
    assert ("image.min_kernel" not in failures(image(min_kernel=wanted))) is is_enough


def test_a_config_elsewhere_is_remedied_by_a_copy() -> None:
    finding = failures(kernel(config=HIDDEN))["kernel.config_location"]

    assert "`cp /lib/modules/6.18.15/config /boot/config-6.18.15`" in finding.remediation


def test_many_functions_are_counted_rather_than_listed() -> None:
    symbols = frozenset(KFUNCS) | {f"scx_bpf_new_{number}" for number in range(9)}

    assert failures(kernel(symbols=symbols))["kernel.btf_complete"].detail.endswith("and 4 more")


def test_a_kernel_that_does_not_run_yet_is_judged_by_its_files_alone() -> None:
    offline = Facts(KernelFacts(release="6.18.15", config=NO_SCHED_EXT, btf=MALFORMED))

    found = {finding.id: finding.status.value for finding in examine(offline)}

    assert {name for name, status in found.items() if status == "fail"} == {
        "kernel.sched_ext",
        "kernel.btf_kfuncs",
        "kernel.config",
    }
    assert {name for name, status in found.items() if status == "pass"} == {
        "kernel.version",
        "kernel.btf",
        "kernel.btf_complete",
    }


def test_nothing_known_is_nothing_claimed() -> None:
    assert {finding.status.value for finding in examine(Facts(KernelFacts()))} == {"skip"}


def test_checks_of_an_image_are_left_out_without_one() -> None:
    ids = {finding.id for finding in examine(Facts(KERNEL))}

    assert ids == {check.id for check in CHECKS if not check.id.startswith("image.")}


def test_only_errors_block() -> None:
    warnings = runtimes(DEAD_PODMAN, CONTAINERD)
    errors = kernel(state=State.ABSENT)

    assert summarize(examine(warnings)).blocking == 0
    assert summarize(examine(errors)).blocking == 1


def test_a_summary_counts_every_finding_once() -> None:
    findings = examine(runtimes(DEAD_PODMAN, CONTAINERD))
    summary = summarize(findings)

    assert summary.failed == 1
    assert summary.passed + summary.failed + summary.skipped == len(findings)


ALLOWED_WITH = (
    '{"syscalls": [{"names": ["mount", "bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": [%s]}}]}'
)


@pytest.mark.parametrize(
    ("profile", "allows"),
    [
        pytest.param(ALLOWED_WITH % '"CAP_BPF"', True, id="with CAP_BPF"),
        pytest.param(ALLOWED_WITH % '"CAP_SYS_ADMIN"', False, id="only with CAP_SYS_ADMIN"),
        pytest.param(ALLOWED_WITH % "", True, id="always"),
        pytest.param('{"syscalls": [{"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}]}', False, id="never"),
        pytest.param('{"syscalls": []}', False, id="not mentioned"),
        pytest.param("{}", None, id="no profile"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_a_seccomp_profile_says_who_may_call_bpf(profile: str, allows: bool | None) -> None:
    assert seccomp.allows_bpf(profile.encode()) is allows
