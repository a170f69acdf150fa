"""The targets that install: they say what is missing before they touch anything."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rig.base import polling, processes

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
NO_CLUSTER = """\
#!/bin/sh
echo "The connection to the server localhost:8080 was refused" >&2
exit 1
"""
# a cluster answers, but what is to be deleted stays for ever, as with a finalizer that nobody removes
STUCK = """\
#!/bin/sh
[ "$1" = get ] && exit 0
echo $$ > {file}.part && mv {file}.part {file}
exec sleep 600
"""


def environment(path: str | None = None, **more: str) -> Mapping[str, str]:
    """Without what an outer make hands to an inner one."""
    kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
    return kept | {"PATH": path or os.environ["PATH"]} | more


def make(*words: str, path: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--old-file=.venv/.ready", *words],
        cwd=ROOT,
        env=environment(path, **variables),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


# a cluster answers, and what is asked is written down
OBEDIENT = """\
#!/bin/sh
echo "$@" >> {file}
[ "$1" = kustomize ] && printf '{rendered}'
exit 0
"""


def place(file: Path, text: str) -> str:
    """A PATH that begins with this program."""
    file.write_text(text)
    file.chmod(0o755)
    return f"{file.parent}:{os.environ['PATH']}"


@pytest.fixture
def without_cluster(tmp_path: Path) -> str:
    """A PATH whose kubectl finds nobody."""
    return place(tmp_path / "kubectl", NO_CLUSTER)


@contextmanager
def working(program: str, *words: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A make whose program does not end by itself, and the id of that program; neither is left behind."""
    path = place(folder / program, STUCK.format(file=folder / "pid"))
    argv = ["make", "--old-file=.venv/.ready", *words]
    with subprocess.Popen(
        argv,
        cwd=ROOT,
        env=environment(path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        polling.until((folder / "pid").exists, f"{program} was started", timeout_s=TIMEOUT_S)
        pid = int((folder / "pid").read_text())
        try:
            yield running, pid
        finally:
            for each in (pid, running.pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_kubectl_ends_when_make_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    with working("kubectl", "undeploy", folder=tmp_path) as (running, kubectl):
        running.send_signal(number)

        polling.until(lambda: not processes.is_alive(kubectl), "kubectl has ended", timeout_s=TIMEOUT_S)


def test_who_interrupts_is_told_that_the_command_can_be_repeated(tmp_path: Path) -> None:
    with working("kubectl", "undeploy", folder=tmp_path) as (running, _):
        os.killpg(running.pid, signal.SIGINT)

        _, said = running.communicate(timeout=TIMEOUT_S)

    assert "a part of it may be done already; the same command again does the rest\n" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("target", ["deploy", "build-installer", "docker-build"])
def test_without_an_image_it_says_how_to_name_or_build_one(target: str) -> None:
    done = make(target)

    assert done.returncode != 0
    assert "add IMG=registry/repository:tag; `make docker-build IMG=…` builds one" in done.stderr


def test_an_image_that_is_none_is_refused() -> None:
    done = make("deploy", "IMG=Not An Image")

    assert "IMG=Not An Image is no image reference: write registry/repository:tag" in done.stderr


@pytest.mark.parametrize("target", ["install", "uninstall", "deploy", "undeploy", "run"])
def test_without_a_cluster_it_says_how_to_name_or_start_one(target: str, without_cluster: str) -> None:
    done = make(target, "IMG=registry.example/sked:1", path=without_cluster)

    assert done.returncode != 0
    assert "no cluster answers (The connection to the server localhost:8080 was refused)" in done.stderr
    assert "point KUBECONFIG at a cluster; `make cluster` starts one" in done.stderr


def test_a_kubeconfig_that_is_not_there_is_named(without_cluster: str) -> None:
    """Kubectl itself would ask a server on this machine instead, and complain of that one."""
    done = make("install", path=without_cluster, KUBECONFIG="/nonexistent:/neither")

    assert "KUBECONFIG names /nonexistent and /neither, and nothing is there: name a file" in done.stderr
    assert "8080" not in done.stderr


def test_a_tool_that_fails_is_not_the_only_one(tmp_path: Path) -> None:
    """A docker without its daemon, say. uv is left out: what it would install is of no interest here."""
    tool = tmp_path / "docker"
    path = place(tool, "#!/bin/sh\necho no daemon >&2; exit 1\n")
    uv = tmp_path / "uv"
    place(uv, '#!/bin/sh\nfor word; do case $word in --target=*) mkdir -p "${word#--target=}";; esac; done\n')

    done = make(
        "docker-build", "IMG=registry.example/sked:1", f"CONTAINER_TOOL={tool}", f"UV={uv}", path=path
    )

    assert "docker ended with 1, its reason is above" in done.stderr
    assert "mend it, or build with podman or buildah: CONTAINER_TOOL=…" in done.stderr


def test_what_writes_is_removed_before_what_it_writes(tmp_path: Path) -> None:
    path = place(tmp_path / "kubectl", OBEDIENT.format(file=tmp_path / "asked", rendered=""))

    done = make("undeploy", path=path)

    deleted = [line for line in (tmp_path / "asked").read_text().splitlines() if line.startswith("delete ")]
    assert done.returncode == 0, done.stderr
    assert deleted == [f"delete --ignore-not-found -k config/{each}" for each in ("agent", "agentless")]


def test_manager_and_agents_must_both_be_of_the_image_that_is_named(tmp_path: Path) -> None:
    rendered = "image: controller:latest\\nimage: somebody/elses:v1\\n"
    path = place(tmp_path / "kubectl", OBEDIENT.format(file=tmp_path / "asked", rendered=rendered))

    done = make("deploy", "IMG=registry.example/sked:1", path=path)

    assert done.returncode != 0
    assert "once in each of config/manager/manager.yaml and config/agent/daemonset.yaml" in done.stderr
    assert "apply" not in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        pytest.param({}, "127.0.0.1:8081", id="nobody else reaches it"),
        pytest.param({"SKED_HEALTH_PROBE_BIND_ADDRESS": "0"}, "0", id="unless told otherwise"),
    ],
)
def test_the_probes_of_a_manager_from_here_are_for_this_machine(
    variables: dict[str, str], address: str, tmp_path: Path
) -> None:
    place(tmp_path / "sked", '#!/bin/sh\necho "probes on $SKED_HEALTH_PROBE_BIND_ADDRESS"\n')

    done = make("--old-file=install", "run", f"BIN={tmp_path}", **variables)

    assert f"probes on {address}\n" in done.stdout


def test_a_tool_that_is_not_there_is_named() -> None:
    done = make("docker-build", "IMG=registry.example/sked:1", "CONTAINER_TOOL=no-such-tool")

    assert "no-such-tool is not on PATH: install it, or name another with CONTAINER_TOOL=…" in done.stderr
