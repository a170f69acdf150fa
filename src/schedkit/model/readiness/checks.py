"""What is asked of a machine before it runs schedulers. No check assumes that another passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from schedkit.model.kernel.btf import BtfReading
from schedkit.model.kernel.sched_ext import State, parse_version
from schedkit.model.readiness.facts import Facts

FIRST_KERNEL = (6, 12)
REQUIRED_OPTIONS = ("BPF", "BPF_SYSCALL", "BPF_JIT", "DEBUG_INFO_BTF", "SCHED_CLASS_EXT")
# the oldest that schedkit is tested with
OLDEST_RUNTIMES = {"podman": (4, 3), "containerd": (1, 6)}
_ON_THE_HOST = "run schedctl as root, on the host, where /sys is mounted"
_NAMED = 5  # functions are named in full up to so many


class Outcome(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    SKIP = "skip"  # there was nothing to look at


Answer = tuple[Outcome, str, str]  # outcome, detail, and the remediation when it is a special one


def _passed(detail: str) -> Answer:
    return Outcome.PASS, detail, ""


def _failed(detail: str, remediation: str = "") -> Answer:
    return Outcome.FAIL, detail, remediation


def _skipped(detail: str) -> Answer:
    return Outcome.SKIP, detail, ""


def kernel_is_new_enough(facts: Facts) -> Answer:
    """A kernel that shows sched_ext is new enough whatever its number: distributions backport."""
    release = facts.kernel.release
    version = parse_version(release)
    if version is None:
        return _skipped("the kernel's release is not known")
    if version >= FIRST_KERNEL:
        return _passed(release)
    if facts.kernel.state not in {None, State.ABSENT, State.UNKNOWN}:
        return _passed(f"{release}, with a backported sched_ext")
    return _failed(f"{release} predates sched_ext, which came with {_dotted(FIRST_KERNEL)}")


def sched_ext_is_built_in(facts: Facts) -> Answer:
    """Trust sysfs over the config file: sysfs cannot be stale."""
    kernel = facts.kernel
    if kernel.state is State.UNKNOWN:
        return _failed("/sys/kernel/sched_ext/state cannot be read, or has an unknown value", _ON_THE_HOST)
    if kernel.state is not None:
        is_there = kernel.state is not State.ABSENT
        return (
            _passed(f"the kernel says `{kernel.state}`")
            if is_there
            else _failed("there is no /sys/kernel/sched_ext")
        )
    if kernel.config is None:
        return _skipped("this kernel is not running, and no config file is given")
    if kernel.config.problem:
        return _skipped(kernel.config.problem)
    is_set = kernel.config.options.get("SCHED_CLASS_EXT") == "y"
    return _passed("CONFIG_SCHED_CLASS_EXT=y") if is_set else _failed("CONFIG_SCHED_CLASS_EXT is not set")


def btf_is_there(facts: Facts) -> Answer:
    """Without its types no scheduler can be fitted to a kernel."""
    btf = facts.kernel.btf
    if btf is None:
        return _skipped("no BTF file is given")
    if btf.novelty:
        return _skipped(f"its format is newer than schedkit can read: {btf.novelty}")
    return _failed(btf.problem) if btf.problem else _passed(f"{len(btf.kfuncs)} functions of sched_ext")


def btf_describes_functions_rightly(facts: Facts) -> Answer:
    """One wrong prototype is enough for every scheduler that calls the function to be refused."""
    btf = facts.kernel.btf
    if btf is None or not btf.kfuncs:
        return _without_functions(btf)
    if btf.malformed:
        return _failed(f"wrongly described functions: {_some(btf.malformed)}")
    return _passed("no function is described wrongly")


def _without_functions(btf: BtfReading | None) -> Answer:
    if btf is None or btf.problem:
        return _skipped("there is no BTF to check")
    if btf.novelty:
        return _skipped("the format of the BTF is newer than schedkit can read")
    return _skipped("the BTF describes no function of sched_ext")


def btf_describes_all_functions(facts: Facts) -> Answer:
    """Symbols say what the kernel has; only schedulers that call what BTF lacks are refused."""
    btf, symbols = facts.kernel.btf, facts.kernel.symbols
    if btf is None or not btf.kfuncs:
        return _without_functions(btf)
    missing = btf.missing(symbols)
    if missing:
        return _failed(f"missing functions: {_some(missing)}")
    return _passed(f"all {len(symbols)} functions" if symbols else "all functions that most schedulers call")


def config_has_what_sched_ext_needs(facts: Facts) -> Answer:
    """The options without which nothing works."""
    return _options(facts, REQUIRED_OPTIONS)


def config_lies_where_libbpf_looks(facts: Facts) -> Answer:
    """Some schedulers ask how the kernel was built, and cannot be loaded when nothing answers."""
    config = facts.kernel.config
    if facts.kernel.state is None:
        return _skipped("this kernel is not running")
    if config is None:
        return _failed("the kernel's config was not found")
    if config.is_found_by_libbpf:
        return _passed(config.path)
    # no link: it would lead nowhere inside a container that sees only /boot
    copy = f"`cp {config.path} /boot/config-{facts.kernel.release}`"
    return _failed(
        f"the config is only in {config.path}", f"{copy}; containers of `schedctl run` see it anyway"
    )


def no_cpu_is_isolated(facts: Facts) -> Answer:
    """The kernel refuses sched_ext together with `isolcpus=`."""
    cpus = facts.kernel.isolated_cpus
    if facts.kernel.state is None:
        return _skipped("this kernel is not running")
    return _failed(f"isolcpus= takes CPUs {cpus} from the scheduler") if cpus else _passed("no isolated CPU")


def has(capability: str) -> Callable[[Facts], Answer]:
    """The check that this process has the capability."""

    def answer(facts: Facts) -> Answer:
        ours = facts.kernel.capabilities
        if ours is None:
            return _skipped("schedctl's own capabilities are not known")
        return _passed("effective") if capability in ours else _failed(f"{capability} is not effective")

    return answer


def answers(name: str) -> Callable[[Facts], Answer]:
    """The check that the container runtime of this name answers."""

    def answer(facts: Facts) -> Answer:
        runtime = next((each for each in facts.runtimes or () if each.name == name), None)
        if runtime is None:
            return _skipped("this runtime was not checked")
        if not runtime.problem:
            return _passed(runtime.socket)
        is_named = runtime.socket in runtime.problem
        detail = runtime.problem if is_named else f"{runtime.socket}: {runtime.problem}"
        return _failed(detail, runtime.remedy)

    return answer


def some_runtime_answers(facts: Facts) -> Answer:
    """One is enough."""
    if facts.runtimes is None:
        return _skipped("no runtime was checked")
    names = [each.name for each in facts.runtimes if not each.problem]
    if names:
        return _passed(", ".join(names))
    remedy = next((each.remedy for each in facts.runtimes if each.remedy), "")
    return _failed("neither Podman nor containerd answers", remedy)


def runtimes_are_new_enough(facts: Facts) -> Answer:
    """Older ones may work; nobody has tried."""
    known = [each for each in facts.runtimes or () if parse_version(each.version)]
    if not known:
        return _skipped("no runtime reports its version")
    old = [each for each in known if (parse_version(each.version) or ()) < OLDEST_RUNTIMES.get(each.name, ())]
    named = ", ".join(f"{each.name} {each.version}" for each in old or known)
    return _failed(f"{named}: older than any version tested with schedkit") if old else _passed(named)


def seccomp_lets_bpf_through(facts: Facts) -> Answer:
    """It matters to containers that are not privileged, and not schedctl's."""
    known = [each for each in facts.runtimes or () if each.allows_bpf is not None]
    if not known:
        return _skipped("no runtime's seccomp profile is known")
    strict = [each.name for each in known if not each.allows_bpf]
    if strict:
        return _failed(f"{', '.join(strict)} lets containers call bpf(2) only with CAP_SYS_ADMIN")
    return _passed("containers with CAP_BPF may call bpf(2)")


def kernel_suits_the_image(facts: Facts) -> Answer:
    """By the image's own label."""
    image, version = facts.image, parse_version(facts.kernel.release)
    wanted = parse_version(image.min_kernel) if image else None
    if image is None or wanted is None or version is None:
        return _skipped("no image is given, or it does not say which kernel it needs")
    words = f"{image.name} needs kernel {image.min_kernel}; this is {facts.kernel.release}"
    return _passed(words) if version >= wanted else _failed(words)


def architecture_suits_the_image(facts: Facts) -> Answer:
    """An image for another machine cannot start."""
    image, ours = facts.image, facts.kernel.architecture
    if image is None or not image.architectures or not ours:
        return _skipped("no image is given, or it does not say which machines it is for")
    words = f"{image.name} is for {', '.join(image.architectures)}; this machine is {ours}"
    return _passed(words) if ours in image.architectures else _failed(words)


def config_suits_the_image(facts: Facts) -> Answer:
    """Some schedulers need more of a kernel than others."""
    if facts.image is None or not facts.image.options:
        return _skipped("no image is given, or it needs nothing special")
    return _options(facts, facts.image.options)


def image_is_found(facts: Facts) -> Answer:
    """Where it is published, or in the layout that was named."""
    if facts.image is None:
        return _skipped("no image is given")
    return _failed(facts.image.problem) if facts.image.problem else _passed(facts.image.name)


def config_is_there_for_the_image(facts: Facts) -> Answer:
    """Wherever it lies, `schedctl run` shows it to the container."""
    if facts.image is None or not facts.image.reads_config:
        return _skipped("the image is not known to read the kernel's config")
    if facts.kernel.config is None:
        return _failed(f"{facts.image.name} reads the kernel's config, which was not found")
    return _passed(facts.kernel.config.path)


def tracing_is_there_for_the_image(facts: Facts) -> Answer:
    """Where it is mounted, `schedctl run` shows it to the containers of such images."""
    if facts.image is None or not facts.image.reads_tracing:
        return _skipped("the image is not known to read /sys/kernel/tracing")
    if facts.kernel.state is None:
        return _skipped("this kernel is not running")
    if facts.kernel.shows_tracing is None:
        return _skipped("this user may not read /sys/kernel/tracing")
    if facts.kernel.shows_tracing:
        return _passed("/sys/kernel/tracing")
    return _failed(f"{facts.image.name} reads /sys/kernel/tracing, but nothing is mounted there")


def kernel_has_what_the_image_calls(facts: Facts) -> Answer:
    """Libbpf looks each function up in BTF; one that is not there, or described wrongly, ends the load."""
    image, btf = facts.image, facts.kernel.btf
    if image is None or not image.kfuncs:
        unread = image.unread if image else ""
        return _skipped(unread or "it is not known which functions of sched_ext the image calls")
    if btf is None or not btf.kfuncs:
        return _without_functions(btf)
    lacking = [name for name in image.kfuncs if name not in btf.kfuncs or name in btf.malformed]
    if lacking:
        return _failed(f"missing or wrongly described functions: {_some(lacking)}")
    return _passed(_some(image.kfuncs))


def capabilities_suit_the_image(facts: Facts) -> Answer:
    """What we may not do, none of our containers may."""
    image, ours = facts.image, facts.kernel.capabilities
    if image is None or not image.capabilities:
        return _skipped("it is not known which capabilities the image needs")
    if ours is None:
        return _skipped("schedctl's own capabilities are not known")
    missing = [each for each in image.capabilities if each not in ours]
    return (
        _failed(f"not effective: {', '.join(missing)}") if missing else _passed(", ".join(image.capabilities))
    )


def _options(facts: Facts, wanted: Sequence[str]) -> Answer:
    config = facts.kernel.config
    if config is None:
        return _skipped("the kernel's config was not found")
    if config.problem:
        return _failed(config.problem, "name a file that is a kernel's config")
    unset = [f"CONFIG_{name}" for name in wanted if config.options.get(name) != "y"]
    return _failed(f"not set: {', '.join(unset)}") if unset else _passed(config.path)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
