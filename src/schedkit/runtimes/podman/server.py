"""The service behind Podman's socket: one request per connection, and a second try where that is harmless."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.runtimes import sockets
from schedkit.runtimes.errors import HungUpError
from schedkit.runtimes.podman.request import Request

if TYPE_CHECKING:
    from schedkit.runtimes.podman.http import Answer


class Server:
    """The HTTP server behind a unix socket; every way in which it fails is a `NotAnsweringError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ask(self, request: Request) -> Answer:
        """Send the request; returns with the beginning of the answer.

        A question that changes nothing is put once more to a service that hung up without a word: one that
        systemd starts on demand ends after some idle seconds, and may do so just when it is called.
        """
        try:
            return self._ask(request)
        except HungUpError:
            if request.method != "GET":
                raise
            return self._ask(request)

    def _ask(self, request: Request) -> Answer:
        connection = sockets.connect(self.path, "Podman")
        from schedkit.runtimes.podman.http import converse  # noqa: PLC0415 - h11, for those who have Podman

        connection.settimeout(request.timeout_s)
        try:
            return converse(connection, request)
        except BaseException:
            connection.close()
            raise
