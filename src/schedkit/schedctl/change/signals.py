"""What ends a change from outside: Ctrl-C, a service manager, a session that is gone."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_in_order() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and the loss of a terminal end us as Ctrl-C does: what was created is removed first.

    Who calls what is yielded says that the change is done: from then on no such signal is heard.
    """

    def end(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - as `signal` calls it
        raise SystemExit(128 + number)

    handlers = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(_ENDING, end)}
    # what is ignored stays so: `nohup` means that the session may go
    heard = [each for each in handlers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, handlers[each]) for each in heard}
    try:
        yield lambda: _restore(dict.fromkeys(before, _pass_over))
    finally:
        _restore(before)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does, and only the first of them: what is done about it goes on."""

    def interrupt(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - as `signal` calls it
        _restore(dict.fromkeys(before, _pass_over))
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        _restore(dict.fromkeys(before, interrupt))
        yield
    finally:
        _restore(before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hear no such signal: an impatient second Ctrl-C would leave a machine half way."""
    before = {each: signal.signal(each, _pass_over) for each in (signal.SIGINT, *_ENDING)}
    try:
        yield
    finally:
        _restore(before)


def _pass_over(number: int, frame: object) -> None:
    """Do nothing; unlike SIG_IGN no program that is started meanwhile inherits that."""


def _restore(handlers: Mapping[signal.Signals, signal._HANDLER]) -> None:
    for each, handler in handlers.items():
        signal.signal(each, handler)
