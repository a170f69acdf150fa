"""Ansible, as pinned in ansible-requirements.txt, and playbooks that are run on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rig.base import cache, processes
from rig.base.processes import Completed

_REQUIREMENTS = Path(__file__).with_name("ansible-requirements.txt")


def packages() -> Path:
    """The folder of packages; fetched once."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache.entry("ansible", cache.digest(_REQUIREMENTS.read_bytes(), version), _install)


def _install(folder: Path) -> None:
    chosen = [
        "--python",
        sys.executable,
        "--target",
        str(folder),
        "--require-hashes",
        "-r",
        str(_REQUIREMENTS),
    ]
    processes.run(
        [os.environ.get("UV", "uv"), "pip", "install", "--quiet", "--compile-bytecode", *chosen],
        timeout_s=600,
    )


def play(
    playbook: Path, *, home: Path, env: Mapping[str, str], values: Mapping[str, str], timeout_s: float = 240
) -> Completed:
    """Run the playbook on this machine, with these variables of its own, and say how it ended."""
    words = [word for name, value in values.items() for word in ("--extra-vars", f"{name}={value}")]
    argv = [sys.executable, "-m", "ansible", "playbook", "--inventory", "localhost,", "--connection", "local"]
    settings = {
        "HOME": str(home),
        "PYTHONPATH": str(packages()),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",  # without files in between
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "LC_ALL": "C.UTF-8",
    }
    return processes.run(
        [*argv, *words, str(playbook)], env={**settings, **env}, cwd=home, check=False, timeout_s=timeout_s
    )
