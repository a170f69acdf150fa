"""containerd over its gRPC API: 1.6, 1.7 and 2.x. Containers are in one namespace, their name is their id.

A container is a record, a snapshot as its filesystem, and a task: the prepared or running program.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.runtimes import sockets
from schedkit.runtimes.containerd import log_files
from schedkit.runtimes.containerd.calls import CallError, Calls
from schedkit.runtimes.containers import (
    CREATION_LABEL,
    KILL_TIMEOUT_S,
    NAMESPACE,
    STARTED_AT_LABEL,
    Output,
    shown,
)
from schedkit.runtimes.errors import (
    ContainerRuntimeError,
    ImageMissingError,
    LogsMissingError,
    MissingSupportError,
    SilentError,
    TooOldError,
    no_such_container,
    not_started,
    refusal,
    still_there,
)

if TYPE_CHECKING:
    from schedkit.runtimes.image_content import ImageContent, Progress
    from schedkit.runtimes.specs import Spec

LOGS = Path("/var/log/schedkit/containerd")
_OLDEST = (1, 6)
_STATES = (
    ContainerState.UNKNOWN,
    ContainerState.CREATED,
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.RUNNING,  # it is paused
    ContainerState.RUNNING,  # it is being paused
)
_KILLED = 128 + signal.SIGKILL


class Containerd:
    """The containerd that listens at a socket; output is kept in a folder per container below `logs`."""

    name = "containerd"

    def __init__(self, socket: Path, *, namespace: str = NAMESPACE, logs: Path = LOGS) -> None:
        self._socket = socket
        self._namespace = namespace
        self._logs = logs

    def version(self) -> str:
        """Its version, from the runtime itself: it answers, and is new enough."""
        with self._doing("to tell its version"):
            version = str(self._rpc.call("Version.Version").version).removeprefix("v")
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
            raise TooOldError(f"containerd {version} is too old", "update it to 1.6 or newer")
        return version

    def has_image(self, reference: str) -> bool:
        """Whether the image can be run without loading it."""
        with self._doing(f"to look for {reference}"):
            found = self._found("Images.Get", name=reference)
        # a name is what somebody wrote there: only the digest says which image it is
        digest = reference.partition("@")[2]
        return found is not None and digest in ("", found.image.target.digest)

    def load(self, image: ImageContent, progress: Callable[[Progress], None] | None = None) -> None:
        """Keep exactly these bytes under the image's reference; see the port."""
        from schedkit.runtimes.containerd import images  # noqa: PLC0415 - `status` goes without
        from schedkit.runtimes.image_content import Meter  # noqa: PLC0415 - as above

        with self._doing(f"to load {image.reference}"):
            images.load(self._rpc, image, Meter(image, progress))

    def create(self, spec: Spec) -> Container:
        """Prepare everything up to the start of the program; after a failure nothing is left."""
        from schedkit.runtimes.containerd import creation  # noqa: PLC0415 - `status` goes without

        if not self.has_image(spec.image):
            raise ImageMissingError(f"containerd does not have {spec.image}", "load it first")
        mark = os.urandom(16).hex()
        try:
            with self._doing(f"to create {spec.name}"):
                creation.create_record(self._rpc, self._namespace, spec, mark)
            creation.create_task(self._rpc, spec.name, self._logs, has_input=spec.has_input)
            return self.inspect(spec.name)
        except CallError as error:
            self._undo_creation(spec.name, mark)
            raise not_started(self.name, spec.name, error.said) from error
        except BaseException:
            self._undo_creation(spec.name, mark)
            raise

    def start(self, container: str) -> None:
        """Begin the program, also again after its end; raise `StartError` when it cannot be executed."""
        record = self._record(container)
        try:
            self._renew_task(record)
            self._rpc.call("Tasks.Start", container_id=container)
        except CallError as error:
            raise not_started(self.name, container, error.said) from error
        # containerd does not remember when a program began; it has begun, also if that cannot be written down
        with suppress(CallError, ContainerRuntimeError):
            changed = {"paths": [f"labels.{STARTED_AT_LABEL}"]}
            record = {"id": container, "labels": {STARTED_AT_LABEL: datetime.now(UTC).isoformat()}}
            self._rpc.call("Containers.Update", container=record, update_mask=changed)

    def containers(self) -> tuple[Container, ...]:
        """All of schedkit's, the oldest first, also those of the Go schedctl and those that have ended."""
        with self._doing("to list containers"):
            records = self._rpc.call("Containers.List").containers
            found = [self._described(record) for record in records]
        return tuple(sorted(found, key=lambda one: str(one.created_at)))

    def inspect(self, container: str) -> Container:
        """What is known about one."""
        record = self._record(container)
        with self._doing(f"to inspect {container}"):
            return self._described(record)

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False) -> Iterator[Output]:
        """The last `tail` lines of its output, or all that was kept; `follow` goes on until its end."""
        self._record(container)
        folder = self._folder(container)
        if not folder.is_dir():
            hint = f"output is kept only for containers that this schedctl started, in {self._logs}"
            raise LogsMissingError(f"the output of {container} was not kept", hint)
        return log_files.read(folder, tail=tail, ended=self._end_of(container) if follow else None)

    def attach(self, container: str, *, stdin: int | None = None) -> Iterator[Output]:
        """What its program writes, as it comes and until its end; see the port about `stdin`."""
        output = self.logs(container, follow=True)
        if stdin is not None:
            from schedkit.runtimes.containerd import stdin as containerdinput  # noqa: PLC0415 - `status` goes without

            containerdinput.feed(self._rpc, container, self._folder(container), stdin)
        return output

    def wait(self, container: str, *, timeout_s: float | None = None) -> Exit | None:
        """How it ended, once it has; None if it still runs after that time."""
        if (found := self.inspect(container)).state is ContainerState.EXITED:
            return found.exit
        try:
            with self._doing(f"to wait for {container}"):
                self._rpc.call("Tasks.Wait", container_id=container, timeout_s=timeout_s)
        except SilentError:
            return None
        return self.inspect(container).exit

    def stop(self, container: str, *, grace_s: float) -> Exit | None:
        """SIGTERM, and SIGKILL for what still runs after that time; returns when it is gone."""
        found = self.inspect(container)
        if found.state in {ContainerState.CREATED, ContainerState.EXITED}:
            return found.exit
        if not self._kill(container, signal.SIGTERM):
            return self.inspect(container).exit
        if ended := self.wait(container, timeout_s=grace_s):
            return ended
        self._kill(container, signal.SIGKILL)
        if ended := self.wait(container, timeout_s=KILL_TIMEOUT_S):
            return ended
        raise still_there(self.name, container)

    def remove(self, container: str) -> None:
        """Delete it with its output, and kill it before if it still runs; it may be gone already."""
        with self._doing(f"to remove {container}"):
            record = self._found("Containers.Get", id=container)
            if record is not None:
                self._delete_task(container)
                key = {"snapshotter": record.container.snapshotter, "key": record.container.snapshot_key}
                self._found("Containers.Delete", id=container)
                self._found("Snapshots.Remove", **key)
        log_files.remove(self._folder(container))

    @cached_property
    def _rpc(self) -> Calls:
        sockets.connect(self._socket, self.name).close()  # gRPC would only say that it cannot connect
        try:
            from schedkit.runtimes.containerd.rpc import Rpc  # noqa: PLC0415 - slow, and not always installed
        except ImportError as error:
            hint = "install it: pip install 'schedkit[containerd]'"
            raise MissingSupportError(f"gRPC, which containerd needs, is missing: {error}", hint) from error
        return Rpc(self._socket, self._namespace)

    def _folder(self, container: str) -> Path:
        return self._logs / container.replace("/", "_")

    def _undo_creation(self, container: str, mark: str) -> None:
        """Remove what a creation has left: by its mark, for another container may have the name."""
        with suppress(ContainerRuntimeError):
            if self._record(container).labels.get(CREATION_LABEL) == mark:
                self.remove(container)

    def _end_of(self, container: str) -> Callable[[], bool]:
        """Whether it has ended by now; raises when containerd no longer answers."""
        ended = self._rpc.later("Tasks.Wait", container_id=container)

        def asked() -> bool:
            try:
                return ended()
            except CallError as error:
                if error.code == "NOT_FOUND":  # it was removed
                    return True
                raise refusal(self.name, f"to wait for {container}", error.said) from error

        return asked

    def _renew_task(self, record: Any) -> None:  # noqa: ANN401 - a class made at run time
        """Prepare the program again if it has ended: a task runs once."""
        from schedkit.runtimes.containerd import creation  # noqa: PLC0415 - `status` goes without

        task = self._found("Tasks.Get", container_id=record.id)
        if task and dict(enumerate(_STATES)).get(task.process.status) is ContainerState.EXITED:
            self._found("Tasks.Delete", container_id=record.id)
            snapshot = {"snapshotter": record.snapshotter, "key": record.snapshot_key}
            creation.create_task(self._rpc, record.id, self._logs, snapshot)

    def _delete_task(self, container: str) -> None:
        if self._found("Tasks.Get", container_id=container) is None:
            return
        if self._kill(container, signal.SIGKILL):
            self._found("Tasks.Wait", container_id=container)
        self._found("Tasks.Delete", container_id=container)

    def _kill(self, container: str, number: signal.Signals) -> bool:
        """False: it has ended."""
        with self._doing(f"to send {number.name} to {container}"):
            return self._found("Tasks.Kill", container_id=container, signal=number.value) is not None

    def _record(self, container: str) -> Any:  # noqa: ANN401 - a class made at run time
        with self._doing(f"to inspect {container}"):
            found = self._found("Containers.Get", id=container)
        if found is None:
            raise no_such_container(self.name, container)
        return found.container

    def _described(self, record: Any) -> Container:  # noqa: ANN401 - as above
        task = self._found("Tasks.Get", container_id=record.id)
        image = self._found("Images.Get", name=record.image)
        began = _parsed(record.labels.get(STARTED_AT_LABEL, ""))
        # without a task it has ended, or was never more than a record
        gone = ContainerState.EXITED if began else ContainerState.UNKNOWN
        state = (
            gone
            if task is None
            else dict(enumerate(_STATES)).get(task.process.status, ContainerState.UNKNOWN)
        )
        return Container(
            id=record.id,
            name=record.id,
            driver="containerd",
            state=state,
            pid=task.process.pid if task and state is ContainerState.RUNNING else None,
            image=record.image,
            image_id=image.image.target.digest if image else None,
            labels=shown(record.labels),
            created_at=_time(record.created_at),
            started_at=began,
            exit=self._exit(record.id, task.process) if task and state is ContainerState.EXITED else None,
        )

    def _exit(self, container: str, process: Any) -> Exit:  # noqa: ANN401 - as above
        killed = process.exit_status == _KILLED
        hungry = killed and self._ran_out_of_memory(container)
        return Exit(process.exit_status, _time(process.exited_at), hungry)

    def _ran_out_of_memory(self, container: str) -> bool:
        try:
            metrics = self._rpc.call("Tasks.Metrics", filters=[f"id=={container}"]).metrics
        except CallError:
            return False  # its control group is gone
        return any(self._oom_kills(metric.data) for metric in metrics)

    def _oom_kills(self, data: Any) -> int:  # noqa: ANN401 - as above
        if data.type_url.endswith(".v2.Metrics"):
            return int(self._rpc.message("Cgroup2Metrics").FromString(data.value).memory_events.oom_kill)
        return int(self._rpc.message("Cgroup1Metrics").FromString(data.value).memory_oom_control.oom_kill)

    def _found(self, method: str, /, **fields: Any) -> Any:  # noqa: ANN401 - as above
        """The answer; None if there is no such thing."""
        try:
            return self._rpc.call(method, **fields)
        except CallError as error:
            if error.code == "NOT_FOUND":
                return None
            raise

    @contextmanager
    def _doing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except CallError as error:
            raise refusal(self.name, doing, error.said) from error


def _parsed(text: str) -> datetime | None:
    """The time in a label; None if it is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _time(stamp: Any) -> datetime | None:  # noqa: ANN401 - a class made at run time
    """None for no time at all, and for Go's zero."""
    return datetime.fromtimestamp(stamp.seconds + stamp.nanos / 1e9, UTC) if stamp.seconds > 0 else None
