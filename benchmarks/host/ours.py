"""`schedctl` with one addition: the kernel's log says when it first spoke to Podman."""

from __future__ import annotations

import sys

from benchmarks.host.courses import CALLED
from benchmarks.host.kernellog import mark
from schedkit.runtimes.podman.http import Answer
from schedkit.runtimes.podman.request import Request
from schedkit.runtimes.podman.server import Server
from schedkit.schedctl.main import main as schedctl


def main(*words: str) -> None:
    """Run that command line."""
    ask = Server.ask

    def marked(self: Server, request: Request) -> Answer:
        setattr(Server, "ask", ask)  # noqa: B010  # a plain assignment is what mypy forbids
        mark(CALLED)
        return ask(self, request)

    setattr(Server, "ask", marked)  # noqa: B010  # as above
    schedctl(words, prog_name="schedctl")


if __name__ == "__main__":
    main(*sys.argv[1:])
