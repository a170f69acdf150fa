"""Another Kubernetes minor than the pinned one, for `make test-kubernetes VERSION=1.30`.

Its modules are resolved when they are asked for, by upstream's own list and with Go's checksum database, and
kept in the cache: no range of versions has to be pinned here. Only what a control plane is made of is built
of it, and kubectl; etcd and the kubelet stay the pinned ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache as once
from pathlib import Path

from rig.base import cache
from rig.base.errors import RigError
from rig.base.progress import step
from rig.build import golang

VARIABLE = "RIG_KUBERNETES"
BOX = "kubebox"
PINNED = Path(__file__).parent / "kubebox"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_MODULE = "k8s.io/kubernetes"
# `main.go` is one line for each program, and its imports
_LINES_OF_OTHERS = ("etcdmain", "kubelet", '"context"')


def asked() -> str:
    """The minor or version that is asked for; empty: the pinned one."""
    text = os.environ.get(VARIABLE, "")
    if text and not re.fullmatch(r"1\.\d+(\.\d+)?", text):
        raise RigError(f"VERSION={text!r} is no version of Kubernetes; set for example VERSION=1.30")
    return text


@once
def version() -> str:
    """The version that is asked for, with its leading `v`; of a minor, its newest patch when first asked."""
    return _required(_module(asked()))


def source() -> Path:
    """The Go module of that version, with all its checksums."""
    return _module(asked())


def _required(module: Path) -> str:
    found = re.search(rf"^(?:require)?\s*{_MODULE} (v\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, module
    return found[1]


def _module(wanted: str) -> Path:
    main = control_plane_alone((PINNED / "main.go").read_text())
    go = re.search(r"^go \S+$", (PINNED / "go.mod").read_text(), re.MULTILINE)
    assert go is not None, PINNED

    def resolve(folder: Path) -> None:
        with step(f"Kubernetes {wanted}: finding out its Go modules"):
            chosen = newest(golang.versions(BOX, _MODULE), wanted)
            upstream = golang.requirements(BOX, f"{_MODULE}@{chosen}")
            (folder / "main.go").write_text(main)
            (folder / "go.mod").write_text(requiring(chosen, upstream, go=go[0]))
            golang.tidy(BOX, folder)

    return cache.entry("kubebox-modules", f"{wanted}-{cache.digest(main, go[0])}", resolve)


def newest(versions: Iterable[str], wanted: str) -> str:
    """The newest patch of a minor, or the very version; releases alone."""
    of_it = re.compile(rf"v{re.escape(wanted)}(?:\.(\d+))?")
    found = {int(match[1] or 0): match[0] for each in versions if (match := of_it.fullmatch(each))}
    if not found:
        raise RigError(f"VERSION={wanted} was never released; set for example VERSION=1.30")
    return found[max(found)]


def control_plane_alone(main: str) -> str:
    """The program without the kubelet, whose function has another form in each minor, and without etcd."""
    lines = main.splitlines(keepends=True)
    return "".join(line for line in lines if not any(word in line for word in _LINES_OF_OTHERS))


def requiring(chosen: str, upstream: str, *, go: str) -> str:
    """A module that needs that version, with the parts that upstream keeps in its own tree."""
    parts = re.findall(r"^\s*(\S+) => \./staging/\S+$", upstream, re.MULTILINE)
    of_parts = chosen.replace("v1.", "v0.", 1)
    replaced = "".join(f"\t{part} => {part} {of_parts}\n" for part in parts)
    return f"module schedkit.io/rig/kubebox\n\n{go}\n\nrequire {_MODULE} {chosen}\n\nreplace (\n{replaced})\n"
