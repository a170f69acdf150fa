"""The Kubernetes programs of one pinned minor: etcd, API server, controllers, scheduler, kubelet, kubectl.

The versions are those of `kubebox/go.mod` and are written nowhere else. What `$KUBEBUILDER_ASSETS`
offers of the same minor is used as it is; the rest is one multi-call program built from Go modules.
`minors` puts the control plane of another minor in their place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache as once
from pathlib import Path

from rig.base import cache, processes
from rig.base.errors import RigError
from rig.base.progress import say
from rig.build import golang
from rig.cluster import minors

_MODULES = {"etcd": "go.etcd.io/etcd/server/v3"}
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")


@once
def binaries() -> Path:
    """A folder in which each of `PROGRAMS` can be run by its name."""
    found = offered()
    if missing := [name for name in PROGRAMS if name not in found]:
        found |= {name: kubebox(name) for name in missing}
    key = cache.digest(*(f"{name}={found[name]}" for name in PROGRAMS))
    return cache.entry("kubernetes", f"{version()}-{key}", lambda folder: _link(folder, found))


@once
def version(program: str = "kube-apiserver") -> str:
    """The pinned version of a program, with its leading `v`."""
    if is_of_another_minor(program):
        return minors.version()
    module = _MODULES.get(program, "k8s.io/kubernetes")
    text = (minors.PINNED / "go.mod").read_text()
    match = re.search(rf"^\s*{re.escape(module)} (v\S+)$", text, re.MULTILINE)
    if match is None:
        raise RigError(f"kubebox/go.mod does not require {module}: run `go mod tidy` there")
    return match[1]


def is_of_another_minor(program: str) -> bool:
    """Whether the program is not to be the pinned one."""
    return bool(minors.asked()) and program in minors.PROGRAMS


def _link(folder: Path, programs: Mapping[str, Path]) -> None:
    for name, target in programs.items():
        (folder / name).symlink_to(target)


@once
def kubebox(program: str = "kube-apiserver") -> Path:
    """That program and others in one, built from Go modules; it does the work of the name it is called by."""
    source, flags = _recipe(program)
    return golang.build(minors.BOX, source, ldflags=flags)


def are_built() -> bool:
    """Whether nothing has to be built before they can be run; building takes minutes."""
    missing = [name for name in PROGRAMS if name not in offered()]
    recipes = [_recipe(name) for name in missing]
    return all(golang.is_built(minors.BOX, source, ldflags=flags) for source, flags in recipes)


def _recipe(program: str) -> tuple[Path, list[str]]:
    """What the program is built from, and the linker's flags."""
    is_other = is_of_another_minor(program)
    # the program's own version, but for etcd, which has its own and no such stamp
    stamped = minors.version() if is_other else version("kubelet")
    major, second = minor(stamped)
    stamp = {"gitVersion": stamped, "gitMajor": major, "gitMinor": second}
    flags = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items()]
    return minors.source() if is_other else minors.PINNED, flags


def offered() -> dict[str, Path]:
    """What the folder in `$KUBEBUILDER_ASSETS` has of the pinned minors."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        return {}
    folder = Path(named).resolve()
    fitting = {name: folder / name for name in PROGRAMS if _is_of_pinned_minor(folder / name)}
    say(f"KUBEBUILDER_ASSETS offers {', '.join(fitting) or f'nothing of Kubernetes {version()}'}")
    return fitting


def _is_of_pinned_minor(program: Path) -> bool:
    return os.access(program, os.X_OK) and minor(reported_version(program)) == minor(version(program.name))


def reported_version(program: Path) -> str:
    """What the program itself says about its version; nothing if it does not answer."""
    question = ["version", "--client"] if program.name == "kubectl" else ["--version"]
    try:
        return processes.run([program, *question], timeout_s=30, check=False).stdout
    except RigError:  # it took too long
        return ""


def minor(text: str) -> tuple[str, str]:
    """Major and minor of the version that a text names; empty ones if it names none."""
    match = re.search(r"(\d+)\.(\d+)\.\d+", text)
    return (match[1], match[2]) if match else ("", "")
