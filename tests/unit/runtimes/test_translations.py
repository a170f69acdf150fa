"""What Podman and containerd are told, and what their answers mean: translations without a runtime."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.containers import ContainerState, Exit
from schedkit.runtimes.containerd import oci_spec
from schedkit.runtimes.containerd.log_keeper import FILE_LIMIT_BYTES
from schedkit.runtimes.containers import Output, Stream
from schedkit.runtimes.errors import DiskFullError, RefusedError, StartError, not_started, refusal
from schedkit.runtimes.podman import answers, create_body
from schedkit.runtimes.specs import LOG_LIMIT_BYTES, LeastPrivilege, Mount, Spec

SPEC = Spec(admission=UNSIGNED, name="fifo", image="registry.example/fifo@sha256:0")
PROGRAM = oci_spec.Program(("/fifo",), ("--default",), ("PATH=/usr/bin", "KIND=image"))


def rendered(spec: Spec, program: oci_spec.Program = PROGRAM) -> dict[str, dict[str, object]]:
    return oci_spec.render(spec, program, cgroup="/schedkit/fifo", grantable=("CAP_BPF", "CAP_SYS_ADMIN"))


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Exit(0), "exit code 0"),
        (Exit(1), "exit code 1"),
        (Exit(137), "killed by SIGKILL"),
        (Exit(139), "killed by SIGSEGV"),
        (Exit(255), "exit code 255"),  # no signal has the number 127
        (Exit(137, out_of_memory=True), "killed by the kernel because memory ran out"),
    ],
)
def test_an_exit_says_what_happened(ended: Exit, words: str) -> None:
    assert str(ended) == words


@pytest.mark.parametrize("number", signal.Signals)
def test_every_signal_is_called_as_elsewhere(number: signal.Signals) -> None:
    assert str(Exit(128 + number)) == f"killed by {number.name}"


def test_a_signal_has_its_number() -> None:
    assert (Exit(128 + signal.SIGTERM).signal, Exit(3).signal) == (signal.SIGTERM, None)


class TestPodman:
    def inspected(self, **state: object) -> dict[str, object]:
        usual = {"Status": "running", "Pid": 12, "ExitCode": 0, "OOMKilled": False}
        times = {"StartedAt": "2026-01-02T03:04:05.123456789+01:00", "FinishedAt": "0001-01-01T00:00:00Z"}
        return {
            "Id": "abc",
            "Name": "fifo",
            "ImageName": "registry.example/fifo@sha256:0",
            "Image": "def",
            "Config": {"Labels": None},
            "Created": "2026-01-02T02:04:05Z",
            "State": usual | times | state,
        }

    def test_an_inspection_is_read(self) -> None:
        found = answers.container(self.inspected())

        assert (found.state, found.pid, found.exit, found.labels) == (ContainerState.RUNNING, 12, None, {})
        assert found.started_at == datetime(2026, 1, 2, 2, 4, 5, 123456, UTC)

    @pytest.mark.parametrize("status", ["paused", "stopping"])
    def test_what_still_has_a_process_runs(self, status: str) -> None:
        assert answers.container(self.inspected(Status=status)).state is ContainerState.RUNNING

    def test_a_state_of_a_later_podman_is_unknown(self) -> None:
        assert answers.container(self.inspected(Status="teleporting")).state is ContainerState.UNKNOWN

    def test_memory_that_ran_out_is_seen(self) -> None:
        ended = answers.container(self.inspected(Status="exited", Pid=0, ExitCode=137, OOMKilled=True)).exit

        assert ended == Exit(137, None, out_of_memory=True)

    def test_without_privileges_it_asks_for_the_capabilities_alone(self) -> None:
        body = json.loads(
            create_body.create_body(
                Spec(admission=UNSIGNED, name="n", image="i", privileges=LeastPrivilege(("CAP_BPF",))), "0"
            )
        )

        assert (body["cap_drop"], body["cap_add"], body["read_only_filesystem"]) == (
            ["ALL"],
            ["CAP_BPF"],
            True,
        )
        assert "privileged" not in body

    def test_its_containers_are_marked_as_those_of_the_go_schedctl(self) -> None:
        body = json.loads(create_body.create_body(SPEC, "0"))

        assert body["labels"] == {"provider": "schedkit", "org.schedkit.creation": "0"}

    @given(st.lists(st.tuples(st.sampled_from(Stream), st.binary(max_size=40))), st.data())
    def test_output_is_the_same_however_it_is_cut(
        self, said: list[tuple[Stream, bytes]], data: st.DataObject
    ) -> None:
        frames = b"".join(bytes([kind.value, 0, 0, 0]) + len(text).to_bytes(4) + text for kind, text in said)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(frames)))))
        pieces = [frames[start:end] for start, end in zip([0, *cuts], [*cuts, len(frames)], strict=True)]

        heard = list(answers.outputs(pieces))

        for stream in Stream:
            whole = b"".join(text for kind, text in said if kind is stream)
            assert b"".join(one.data for one in heard if one.stream is stream) == whole

    def test_an_unfinished_frame_is_still_shown(self) -> None:
        assert list(answers.outputs([b"\2\0\0\0\0\0\0\x09half"])) == [Output(Stream.STDERR, b"half")]

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b'{"message": "no such thing", "cause": "x"}', "no such thing"),
            (b"no such thing\n", "no such thing"),
            (b'["no such thing"]', '["no such thing"]'),
            (b'{"message": 1}', ""),
            (b"\xff" * 5000, "\N{REPLACEMENT CHARACTER}" * 2000),
        ],
    )
    def test_a_reason_is_found_in_any_body(self, body: bytes, reason: str) -> None:
        assert answers.reason(body) == reason


class TestContainerd:
    def test_arguments_replace_those_of_the_image_and_its_environment_stays(self) -> None:
        process = rendered(Spec(admission=UNSIGNED, name="n", image="i", args=("--fast",)))["process"]

        assert process["args"] == ["/fifo", "--fast"]
        assert process["env"] == ["PATH=/usr/bin", "KIND=image"]

    def test_without_arguments_the_images_own_are_used(self) -> None:
        assert rendered(SPEC)["process"]["args"] == ["/fifo", "--default"]

    def test_a_privileged_one_gets_all_that_can_be_granted(self) -> None:
        whole = rendered(SPEC)

        assert whole["process"]["capabilities"] == {
            name: ["CAP_BPF", "CAP_SYS_ADMIN"] for name in ("bounding", "effective", "permitted")
        }
        assert (whole["root"]["readonly"], whole["linux"]["maskedPaths"]) == (False, [])

    def test_least_privilege_gets_its_own_and_a_root_it_cannot_write(self) -> None:
        whole = rendered(Spec(admission=UNSIGNED, name="n", image="i", privileges=LeastPrivilege()))

        assert whole["process"]["capabilities"] == {
            name: ["CAP_BPF", "CAP_PERFMON"] for name in ("bounding", "effective", "permitted")
        }
        assert (whole["root"]["readonly"], whole["process"]["noNewPrivileges"]) == (True, True)
        assert "/proc/sysrq-trigger" in json.dumps(whole["linux"]["readonlyPaths"])

    def test_processes_are_the_hosts_and_the_network_is_its_own(self) -> None:
        namespaces = json.dumps(rendered(SPEC)["linux"]["namespaces"])

        assert ("pid" in namespaces, "network" in namespaces) == (False, True)

    def test_what_is_mounted_comes_after_the_run_folder_below_which_it_may_lie(self) -> None:
        mounts = rendered(
            Spec(admission=UNSIGNED, name="n", image="i", mounts=(Mount("/var/run/scx", "/run/scx"),))
        )["mounts"]

        targets = [json.loads(json.dumps(mount))["destination"] for mount in mounts]
        assert targets.index("/run") < targets.index("/run/scx")

    @pytest.mark.parametrize(
        ("text", "ids"), [("", (0, 0)), ("root", (0, 0)), ("5", (5, 0)), ("5:6", (5, 6))]
    )
    def test_users_are_numbers(self, text: str, ids: tuple[int, int]) -> None:
        user = rendered(SPEC, oci_spec.Program(user=text))["process"]["user"]

        assert user == {"uid": ids[0], "gid": ids[1]}

    def test_a_user_by_name_is_refused(self) -> None:
        with pytest.raises(RefusedError, match="wants to run as the user 'nobody'"):
            rendered(SPEC, oci_spec.Program(user="nobody"))

    def test_an_image_without_any_settings_is_read(self) -> None:
        assert oci_spec.parse_program(b'{"config": null}') == oci_spec.Program()

    def test_capabilities_are_read_from_a_set(self) -> None:
        assert oci_spec.granted(1 << 39 | 1 << 21 | 1) == ("CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_BPF")


def test_a_full_disk_is_told_from_other_refusals() -> None:
    full = "write /var/x: no space left on device"

    assert isinstance(refusal("Podman", "to load x", full), DiskFullError)
    assert isinstance(not_started("containerd", "x", full), DiskFullError)
    assert isinstance(not_started("containerd", "x", "exec format error"), StartError)
    assert isinstance(refusal("containerd", "to load x", ""), RefusedError)


def test_both_files_of_a_keeper_fit_into_the_limit() -> None:
    assert 2 * FILE_LIMIT_BYTES <= LOG_LIMIT_BYTES


def test_neither_podman_nor_a_containerd_that_is_not_there_costs_grpc_or_tls() -> None:
    script = """
import sys
from pathlib import Path
from schedkit.runtimes.containerd.client import Containerd
from schedkit.runtimes.errors import NoSocketError
from schedkit.runtimes.podman.client import Podman
for runtime in (Podman, Containerd):
    try:
        runtime(Path("/nowhere/socket")).version()
    except NoSocketError:
        print("no socket")
costly = {"grpc", "google.protobuf", "h11", "hashlib", "http.client", "httpx2", "msgspec", "ssl"}
print(*sorted(costly & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split("\n") == ["no socket", "no socket", "", ""]


def test_without_grpc_it_is_said_what_to_install() -> None:
    script = """
import socket, sys, tempfile
from pathlib import Path
from schedkit.runtimes.containerd.client import Containerd
from schedkit.runtimes.errors import MissingSupportError
sys.modules["grpc"] = None
with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
    listener.bind(folder + "/socket")
    listener.listen()
    try:
        Containerd(Path(folder, "socket")).version()
    except MissingSupportError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert "pip install 'schedkit[containerd]'" in done.stdout
