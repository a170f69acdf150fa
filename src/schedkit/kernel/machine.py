"""What this machine's kernel offers a scheduler, beside sched_ext itself."""

from __future__ import annotations

import os
from pathlib import Path

from schedkit.kernel import file_formats, files, sysfs, types
from schedkit.model.readiness.facts import Config, KernelFacts

TRACING = Path("sys/kernel/tracing")
_CONFIG_LIMIT = 4 << 20
_ARCHITECTURES = {"X86_64": "x86_64", "ARM64": "aarch64"}  # by the option that a config has for it


def observe(root: Path) -> KernelFacts:
    """All that readiness asks about the running kernel."""
    system = os.uname()
    return KernelFacts(
        release=system.release,
        architecture=system.machine,
        state=sysfs.read(root).state,
        btf=types.read(root / types.RUNNING),
        symbols=types.symbols(root),
        config=find_config(root, system.release),
        capabilities=file_formats.capabilities(files.text(root / "proc/self/status") or ""),
        isolated_cpus=file_formats.isolated_from_scheduling(files.text(root / "proc/cmdline") or ""),
        shows_tracing=shows_tracing(root),
    )


def shows_tracing(root: Path) -> bool | None:
    """Whether the kernel lists what can be traced; None: we may not look, as root alone may."""
    try:
        (root / TRACING / "available_events").stat()
    except PermissionError:
        return None
    except OSError:
        return False
    return True


def describe(*, config: Path | None, btf: Path | None) -> KernelFacts:
    """A kernel that does not run here, by its files; None: that file is not given."""
    content = (files.data(config, limit=_CONFIG_LIMIT) if config else None) or b""
    given = _given(config, content) if config else None
    built_for = (
        name for option, name in _ARCHITECTURES.items() if given and given.options.get(option) == "y"
    )
    return KernelFacts(
        release=file_formats.config_release(content),
        architecture=next(built_for, ""),
        config=given,
        btf=types.read(btf) if btf else None,
    )


def _given(path: Path, content: bytes) -> Config:
    """The config in a file that somebody named: there must be something in it."""
    problem = f"{path} is not a kernel config" if path.is_file() else f"{path} cannot be read"
    found = _parsed(content, str(path), is_found_by_libbpf=False)
    return found or Config({}, str(path), is_found_by_libbpf=False, problem=problem)


def find_config(root: Path, release: str) -> Config | None:
    """The config of the kernel of that release; first where libbpf looks, then where distributions put it."""
    modules = root / "lib/modules" / release
    places = (
        (root / "proc/config.gz", True),
        (root / f"boot/config-{release}", True),
        (modules / "config", False),
        (modules / "build/.config", False),
    )
    contents = ((files.data(path, limit=_CONFIG_LIMIT), path, libbpf) for path, libbpf in places)
    found = (
        _parsed(content or b"", str(path), is_found_by_libbpf=libbpf) for content, path, libbpf in contents
    )
    return next((config for config in found if config), None)


def _parsed(content: bytes, path: str, *, is_found_by_libbpf: bool) -> Config | None:
    """None if there is nothing in it."""
    options = file_formats.config(content)
    return Config(options, path, is_found_by_libbpf) if options else None
