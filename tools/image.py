"""Builds the operator's image with whichever of podman, buildah and docker is there, and tags it `IMG=…`.

Everything that goes into the image is laid out in `build/image` first: the packages of `uv.lock`, checked
against its hashes, for the Python and platform of the base image, and schedkit itself. The build itself
therefore fetches nothing but the base.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from functools import partial
from pathlib import Path

import children
from children import ROOT
from installation import CannotInstallError, attempt, require_image, say

CONTEXT = ROOT / "build/image"
_ENGINES = ("podman", "buildah", "docker")
_WHEELS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_COMMAND = """\
#!/usr/bin/python3
from schedkit.{}.main import main

main()
"""
_COMMANDS = ("sked", "schedctl")  # the second one for whoever looks around in an agent


def lay_out(context: Path, *, python: str, architecture: str) -> None:
    """Fill the folder with the image's files, at their places in it."""
    os.umask(0o022)  # the image's user is another than the one who builds it
    shutil.rmtree(context, ignore_errors=True)
    library = context / "opt/schedkit"
    _install_packages(library, python=python, architecture=architecture)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src/schedkit", library / "schedkit", ignore=ignored)
    programs = context / "usr/local/bin"
    programs.mkdir(parents=True)
    for name in _COMMANDS:
        (programs / name).write_text(_COMMAND.format(name))
        (programs / name).chmod(0o755)


def _install_packages(library: Path, *, python: str, architecture: str) -> None:
    chosen = ("export", "--frozen", "--quiet", "--no-dev", "--extra=operator", "--no-emit-project")
    # a pod has no terminal; structlog would load it wherever it is, for 4 MiB
    left_out = ("--prune=rich",)
    requirements = _uv(*chosen, *left_out, "--format=requirements.txt")
    _uv(
        *("pip", "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:"),
        f"--target={library}",
        f"--python={sys.executable}",
        f"--python-version={python}",
        f"--python-platform={_WHEELS[architecture]}",
        "--requirements=-",
        stdin=requirements,
    )
    # console scripts of packages name the Python of this machine
    shutil.rmtree(library / "bin", ignore_errors=True)
    (library / ".lock").unlink(missing_ok=True)


def _uv(*arguments: str, stdin: str | None = None) -> str:
    argv = [os.environ.get("UV", str(ROOT / "tools/uv")), *arguments]
    done = children.ask(argv, stdin=stdin, aloud=True)
    if done.returncode:
        raise CannotInstallError(f"uv {arguments[0]} ended with {done.returncode}: its reason is above")
    return done.stdout


def engine() -> str:
    """The first one on PATH, unless `$CONTAINER_TOOL` names another."""
    wanted = (named,) if (named := os.environ.get("CONTAINER_TOOL")) else _ENGINES
    found = next(filter(None, map(shutil.which, wanted)), None)
    if found is None:
        which = " or ".join(wanted)
        raise CannotInstallError(f"{which} is not on PATH: install it, or name another with CONTAINER_TOOL=…")
    return found


def build(image: str, *, base: str | None, architecture: str) -> None:
    """Build the folder into an image of that name."""
    based = ("--build-arg", f"BASE={base}") if base else ()
    words = ("build", f"--platform=linux/{architecture}", *based, "--tag", image, "--file", "Containerfile")
    argv = [engine(), *words, str(CONTEXT.relative_to(ROOT))]
    say(*argv)
    if code := children.run(argv):
        others = " or ".join(name for name in _ENGINES if name != Path(argv[0]).name)
        remedy = f"mend it, or build with {others}: CONTAINER_TOOL=…"
        raise CannotInstallError(f"{argv[0]} ended with {code}, its reason is above: {remedy}")


def make_image(base: str | None, python: str, architecture: str) -> None:
    """Lay its files out, and build it from them."""
    image = require_image(os.environ.get("OPERATOR_IMAGE", ""))
    engine()  # before the long part
    lay_out(CONTEXT, python=python, architecture=architecture)
    build(image, base=base, architecture=architecture)


def main() -> int:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--base",
        default=os.environ.get("OPERATOR_BASE"),
        help="instead of the base image that Containerfile names",
    )
    parser.add_argument(
        "--python", default=os.environ.get("OPERATOR_PYTHON", "3.11"), help="the Python of the base image"
    )
    parser.add_argument("--architecture", choices=_WHEELS, default=_MACHINES.get(platform.machine(), "amd64"))
    chosen = parser.parse_args()
    return attempt(partial(make_image, chosen.base, chosen.python, chosen.architecture))


if __name__ == "__main__":
    sys.exit(main())
