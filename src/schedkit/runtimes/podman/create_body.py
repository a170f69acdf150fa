"""A container to create, in the words of Podman: no I/O."""

from __future__ import annotations

import json
from typing import Any

from schedkit.runtimes.containers import CREATION_LABEL, PROVIDER_LABEL
from schedkit.runtimes.specs import LOG_LIMIT_BYTES, LeastPrivilege, Mount, Spec


def create_body(spec: Spec, mark: str) -> bytes:
    """The container as libpod's `containers/create` wants it; `mark` is what this creation is found by."""
    wanted: dict[str, Any] = {
        "name": spec.name,
        "image": spec.image,
        "command": list(spec.args),
        "stdin": spec.has_input,
        "labels": {**spec.labels, CREATION_LABEL: mark, **dict([PROVIDER_LABEL])},
        "pidns": {"nsmode": "host"},
        "netns": {"nsmode": "none"},
        "mounts": [_run_folder(), *map(_bind, spec.mounts)],
        "systemd": "false",  # or Podman takes what is called `init` for systemd, and mounts over /run
        # whatever the machine's default: journald needs systemd, and `none` forgets a scheduler's last words
        "log_configuration": {"driver": "k8s-file", "size": LOG_LIMIT_BYTES},
    }
    if spec.memory_limit_bytes is not None:
        wanted["resource_limits"] = {"memory": {"limit": spec.memory_limit_bytes}}
    return json.dumps(wanted | _privileges(spec)).encode()


def _privileges(spec: Spec) -> dict[str, Any]:
    if not isinstance(spec.privileges, LeastPrivilege):
        return {"privileged": True}
    return {
        "cap_drop": ["ALL"],
        "cap_add": list(spec.privileges.capabilities),
        "no_new_privileges": True,
        "read_only_filesystem": True,
        # Podman 4.3 on Debian allows bpf(2) only together with CAP_SYS_ADMIN, which is far more than needed
        "seccomp_profile_path": "unconfined",
    }


def _run_folder() -> dict[str, Any]:
    return {
        "type": "tmpfs",
        "source": "tmpfs",
        "destination": "/run",
        "options": ["nosuid", "nodev", "mode=0755", "size=64m"],
    }


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "ro" if mount.read_only else "rw"]
    return {"type": "bind", "source": mount.source, "destination": mount.target, "options": options}
