"""A guest with systemd as PID 1: the files that make its boot small, with Podman and `schedctl` in it."""

from __future__ import annotations

import compileall
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

_PROJECT = Path(__file__).parents[3]
_UNITS = "etc/systemd/system"
_SEEN_AT = "/opt/project"  # of the project: a service with a /tmp of its own would not see it in /tmp
# by the unit that wants them; nothing else is started
_WANTED = {
    "sysinit.target": ("systemd-journald.service", "agent.service"),
    "local-fs.target": ("opt-project.mount",),
    "sockets.target": ("podman.socket",),
}


def lay_root(folder: Path, files: Mapping[str, str], enabled: Mapping[str, str]) -> None:
    """Fill a folder for `vm.Settings.systemd_root`; `enabled` names units with the target that wants them."""
    # a guest cannot keep what it compiles, and would do so at each start of Python
    compileall.compile_dir(_PROJECT / "src", quiet=2)
    for name, text in {**_files(), **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "usr/local/bin/schedctl").chmod(0o755)
    pairs = [(target, unit) for target, units in _WANTED.items() for unit in units]
    for target, unit in (*pairs, *((target, unit) for unit, target in enabled.items())):
        wants = folder / _UNITS / f"{target}.wants"
        wants.mkdir(parents=True, exist_ok=True)
        own = folder / _UNITS / unit
        (wants / unit).symlink_to(f"/{_UNITS}/{unit}" if own.exists() else f"/lib/systemd/system/{unit}")


def _files() -> dict[str, str]:
    return {
        f"{_UNITS}/agent.service": _AGENT,
        f"{_UNITS}/opt-project.mount": _PROJECT_MOUNT.format(here=_PROJECT, there=_SEEN_AT),
        "etc/systemd/journald.conf.d/rig.conf": "[Journal]\nStorage=volatile\n",
        "etc/containers/containers.conf": '[engine]\nruntime = "runc"\n',
        # overlayfs cannot lie on the overlay that is this root
        "etc/containers/storage.conf": _STORAGE,
        "etc/containers/policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}',
        "usr/local/bin/schedctl": _SCHEDCTL.format(project=_SEEN_AT, venv=_venv()),
    }


def _venv() -> Path:
    """Where the interpreter of the tests is seen in the guest."""
    prefix = Path(sys.prefix)
    return Path(_SEEN_AT) / prefix.relative_to(_PROJECT) if prefix.is_relative_to(_PROJECT) else prefix


_AGENT = dedent("""\
    [Unit]
    Description=Takes the commands of the host
    DefaultDependencies=no
    After=systemd-journald.socket

    [Service]
    ExecStart=/run/agent
    ExecStopPost=/bin/sh -c 'sync; echo o > /proc/sysrq-trigger'
    KillMode=process
    Environment=HOME=/root LANG=C.UTF-8
    TasksMax=infinity
    """)
_PROJECT_MOUNT = dedent("""\
    [Unit]
    Description=The project, where no service has a folder of its own

    [Mount]
    What={here}
    Where={there}
    Type=none
    Options=bind
    """)
_STORAGE = dedent("""\
    [storage]
    driver = "overlay"
    graphroot = "/run/containers/graph"
    runroot = "/run/containers/storage"
    """)
_SCHEDCTL = dedent("""\
    #!/bin/sh
    export PYTHONPATH={project}/src PYTHONDONTWRITEBYTECODE=1
    exec {venv}/bin/python -c 'from schedkit.schedctl.main import main; main()' "$@"
    """)
