"""containerd's gRPC API without generated code: messages come from a descriptor set, calls go by name.

Generated modules would tie schedkit to the one version of protobuf that they were generated with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Timer
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor

from schedkit.runtimes.containerd.calls import CallError
from schedkit.runtimes.errors import NotAnsweringError, SilentError

_DESCRIPTORS = Path(__file__).with_name("containerd.binpb")
_PACKAGE = "schedkit.containerd"
_TIMEOUT_S = 60.0
_WRITE_TIMEOUT_S = 300.0  # for one piece of a blob, and for its verification
_CANCELLED_HERE = "Locally cancelled"
_SILENT = "check that it still runs (`systemctl status containerd`), then try again"


class Rpc:
    """Calls to the containerd behind a socket, all in one namespace."""

    def __init__(self, socket: Path, namespace: str, *, write_timeout_s: float = _WRITE_TIMEOUT_S) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTORS.read_bytes()).file:
            self._pool.Add(file)
        self._channel = grpc.insecure_channel(f"unix://{socket.absolute()}")
        self._namespace = namespace
        self._write_timeout_s = write_timeout_s

    def message(self, kind: str, /, **fields: object) -> Any:  # noqa: ANN401 - a class made at run time
        """A message of containerd.proto."""
        described = self._pool.FindMessageTypeByName(f"{_PACKAGE}.{kind}")
        return message_factory.GetMessageClass(described)(**fields)

    def call(
        self, method: str, /, *, lease: str = "", timeout_s: float | None = _TIMEOUT_S, **fields: object
    ) -> Any:  # noqa: ANN401 - a class made at run time
        """The answer to one question, like `call("Tasks.Get", container_id=…)`."""
        described = self._method(method)
        request = message_factory.GetMessageClass(described.input_type)(**fields)
        with _translated(timeout_s):
            return self._channel.unary_unary(*_wire(described))(
                request, timeout=timeout_s, metadata=self._metadata(lease)
            )

    def later(self, method: str, /, **fields: object) -> Callable[[], bool]:
        """Ask without waiting. The result says whether the answer has come, or raises if none will."""
        described = self._method(method)
        request = message_factory.GetMessageClass(described.input_type)(**fields)
        call = self._channel.unary_unary(*_wire(described)).future(request, metadata=self._metadata(""))

        def has_come() -> bool:
            with _translated(None):
                return call.done() and call.result() is not None

        return has_come

    def read(self, method: str, /, **fields: object) -> Iterator[Any]:
        """The stream of answers to one question."""
        described = self._method(method)
        request = message_factory.GetMessageClass(described.input_type)(**fields)
        with _translated(_TIMEOUT_S):
            yield from self._channel.unary_stream(*_wire(described))(
                request, timeout=_TIMEOUT_S, metadata=self._metadata("")
            )

    def converse(self, method: str, /, requests: Iterable[Any], *, lease: str) -> None:
        """Send one message after another, each when the last was answered.

        They are made in the caller's thread, so that what their making raises reaches the caller.
        """
        outbox: SimpleQueue[Any] = SimpleQueue()
        talk = self._channel.stream_stream(*_wire(self._method(method)))
        answers = talk(iter(outbox.get, None), metadata=self._metadata(lease))
        try:
            for request in requests:
                outbox.put(request)
                with _within(self._write_timeout_s, answers):
                    if next(answers, None) is None:
                        raise NotAnsweringError("containerd closed the connection early", _SILENT, acted=True)
        finally:
            answers.cancel()
            outbox.put(None)

    def _method(self, name: str) -> MethodDescriptor:
        service, _, method = name.partition(".")
        return self._pool.FindServiceByName(f"{_PACKAGE}.{service}").methods_by_name[method]

    def _metadata(self, lease: str) -> tuple[tuple[str, str | bytes], ...]:
        named = ("containerd-namespace", self._namespace)
        return (named, ("containerd-lease", lease)) if lease else (named,)


def _wire(method: MethodDescriptor) -> tuple[str, Any, Any]:
    """The method's path at containerd, and how its messages become bytes and come from them."""
    service = method.containing_service.name
    path = f"/containerd.services.{service.lower()}.v1.{service}/{method.name}"
    sent, received = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
    return path, sent.SerializeToString, received.FromString


@contextmanager
def _within(timeout_s: float, call: Any) -> Iterator[None]:  # noqa: ANN401 - grpc has no types
    """Give up on a call that says nothing for so long; gRPC itself only limits a call as a whole."""
    timer = Timer(timeout_s, call.cancel)
    timer.start()
    try:
        with _translated(timeout_s):
            yield
    finally:
        timer.cancel()


@contextmanager
def _translated(timeout_s: float | None) -> Iterator[None]:
    """Say it in our words when a call fails."""
    try:
        yield
    except grpc.RpcError as error:
        code, said = error.code(), error.details() or ""
        # containerd may see first that our time is over, and has no code for it
        is_late = code is grpc.StatusCode.DEADLINE_EXCEEDED or said.startswith(_CANCELLED_HERE)
        if is_late or "context deadline exceeded" in said:
            silence = f"containerd said nothing for {timeout_s or 0:.0f} s"
            raise SilentError(silence, _SILENT, acted=True) from error
        if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}:
            raise NotAnsweringError(
                f"containerd closed the connection: {said}", _SILENT, acted=True
            ) from error
        raise CallError(code.name, said) from error
