"""Schedulers of the catalog, built by their recipes and packaged: what `make catalog-build` does.

The recipe's own script builds. Here it gets a compiler for BPF and libraries from Debian, unpacked and not
installed, and folders in the cache. Crates that several schedulers need are compiled once.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rig.base import cache, processes
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say, step
from rig.build import debian
from rig.build.recipe_facts import labels
from schedkit.model.catalog import parse_catalog

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "recipes"
PACKAGED = ROOT / "dist/catalog"
_CATALOG = ROOT / "src/schedkit/catalog.json"
_RUST_NEEDED = (1, 91)  # by the schedulers' own crates
_BUILD_TIMEOUT_S = 3 * 3600  # minutes on a quiet machine
_LLVM = "usr/lib/llvm-19"


def build(name: str) -> int:
    """Build the scheduler and put its image into the layout that all of them share; say how to go on."""
    image = package(name, program(name), PACKAGED)
    schedctl = f".venv/bin/schedctl --layout {PACKAGED.relative_to(ROOT)}"
    print(f"{image} is in {PACKAGED}. Look at it, or copy it into a registry:\n")
    print(f"    {schedctl} info {image}\n    {schedctl} mirror {image} --to registry.example")
    return 0


def names() -> list[str]:
    """Every scheduler that has a recipe."""
    return sorted(file.parent.name for file in FOLDER.glob("*/build"))


def version(name: str) -> str:
    """The version that the recipe builds; raises with the recipe's own words when it builds nothing."""
    if not (FOLDER / name / "VERSION").exists():
        raise RigError(processes.run([FOLDER / name / "build"], check=False).stderr.strip())
    return (FOLDER / name / "VERSION").read_text().strip()


def program(name: str) -> Path:
    """The scheduler's program, built when its recipe or one of the tools has changed."""
    wanted, rust, tools = version(name), _rust(), _tools()
    key = cache.digest((FOLDER / name / "build").read_bytes(), rust, tools.name)
    return cache.entry(
        "recipes", f"{name}-{wanted}-{key}", lambda folder: _build(name, folder, _environment(tools, rust))
    ).joinpath("bin", name)


def _build(name: str, folder: Path, environment: Mapping[str, str]) -> None:
    logs = cache.root() / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / f"recipe-{name}.log"
    log.unlink(missing_ok=True)
    with step(f"{name} {version(name)}: building, 5 to 15 minutes", detail=lambda: _last_line(log)):
        # a tree: or compilers would go on for a while when their cargo is killed
        compiler = processes.Process(
            [FOLDER / name / "build", folder], log=log, env=environment, tree=processes.can_mount()
        )
        with processes.running(compiler):
            code = compiler.wait(_BUILD_TIMEOUT_S)
    if code != 0:
        ended = "was not done in time" if code is None else f"ended with {code}"
        raise RigError(f"the recipe of {name} {ended}; its log is {log}:\n{compiler.tail()}")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing said yet")


def _environment(tools: Path, rust: str) -> Mapping[str, str]:
    """What the script's caller provides; no libbpf, or the crates would be linked to an older one."""
    libraries, kept = tools / "usr/lib/x86_64-linux-gnu", cache.root() / "cargo"
    headers = (tools / "usr/include", tools / "usr/include/x86_64-linux-gnu")
    return os.environ | {
        "PATH": f"{tools / _LLVM / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": debian.library_path(tools),
        "BPF_CLANG": str(tools / _LLVM / "bin/clang"),
        "LIBCLANG_PATH": str(tools / _LLVM / "lib"),
        "C_INCLUDE_PATH": ":".join(map(str, headers)),
        "PKG_CONFIG_PATH": str(libraries / "pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": str(tools),
        "RUSTFLAGS": f"-L native={libraries}",
        "CARGO_HOME": str(kept / "home"),
        "CARGO_TARGET_DIR": str(kept / f"target-{cache.digest(rust, tools.name)}"),
        "CARGO_TERM_COLOR": "never",
    }


def _tools() -> Path:
    """A compiler for BPF, and the libraries that schedulers are linked to."""
    return debian.machine().tree("scx-build", (FOLDER / "packages").read_text().split())


def _rust() -> str:
    """The version of the machine's Rust; Debian's own is older than the crates allow."""
    needed = ".".join(map(str, _RUST_NEEDED))
    for tool in ("cargo", "rustc", "cc"):
        if shutil.which(tool) is None:
            remedy = f"install Rust {needed} or newer (https://rustup.rs) and a C compiler"
            raise Unavailable("schedulers from crates", f"{tool} is not on PATH", remedy)
    told = processes.run(["rustc", "--version"]).stdout.strip()
    found = re.match(r"rustc (\d+)\.(\d+)", told)
    if found is None or (int(found[1]), int(found[2])) < _RUST_NEEDED:
        raise Unavailable("schedulers from crates", f"this is {told}", f"install Rust {needed} or newer")
    return told


def package(name: str, binary: Path, layout: Path) -> str:
    """Put the program with its libraries into the layout, as `schedctl package` does; the image's name."""
    entry = parse_catalog(_CATALOG.read_bytes())[name]
    image = f"{entry.image_uri}:{version(name)}"
    pack(binary, image, layout, labels(name, version(name), entry), libraries=_libraries())
    say(f"{name}: packaged with its libraries into {layout}")
    return image


def pack(
    binary: Path, image: str, layout: Path, described: Mapping[str, str], *, libraries: Sequence[Path] = ()
) -> None:
    """Have `schedctl package` add an image of the program to the layout."""
    words = ["package", str(binary), "--image", image, "--to", f"oci:{layout}"]
    words += [f"--label={key}={value}" for key, value in described.items()]
    words += [f"--libraries={folder}" for folder in libraries]
    processes.run([Path(sys.executable).with_name("schedctl"), *words])


def _libraries() -> Sequence[Path]:
    """Where the libraries of a program lie that was linked here."""
    return (*map(Path, debian.library_path(_tools()).split(":")), Path("/lib/x86_64-linux-gnu"))
