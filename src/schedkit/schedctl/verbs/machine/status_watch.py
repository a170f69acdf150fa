"""`schedctl status --watch`: each change of what the kernel runs as a line, until Ctrl-C.

The kernel announces what is attached and what goes. Containers come and go without a word, so that
they are looked at now and then as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn

import click

from schedkit.kernel.uevents import Listener, hearing
from schedkit.schedctl.answers.answer import Answer, Format, render
from schedkit.schedctl.problems.problem import ExitCode, printable

LONGEST_S = 5.0  # between two looks
POLL_S = 1.0  # the same where the kernel cannot be heard


@contextmanager
def heard(listen: Callable[[], Listener] = Listener, *, poll_s: float = POLL_S) -> Iterator[Iterator[None]]:
    """When to look: at once, at every announcement, and now and then."""
    with hearing(listen, poll_s=poll_s) as wait:
        yield _moments(wait)


def _moments(wait: Callable[[float], None]) -> Iterator[None]:
    while True:
        yield
        wait(LONGEST_S)


def follow(
    look: Callable[[], Answer],
    output: Format,
    *,
    moments: Callable[[], AbstractContextManager[Iterator[None]]] = heard,
) -> NoReturn:
    """Print the answer of each look that differs from the one before, until Ctrl-C ends it."""
    try:
        with moments() as when:
            for answer in changes(look() for _ in when):
                _emit(answer, output)
    except KeyboardInterrupt:
        pass
    raise SystemExit(ExitCode.DONE)


def changes(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Those that say something else than the one before, the first included."""
    before: Answer | None = None
    for answer in answers:
        if answer != before:
            yield answer
        before = answer


def _emit(answer: Answer, output: Format) -> None:
    for warning in answer.warnings:
        click.echo(printable(f"Warning: {warning}"), err=True)
    click.echo(line(answer, output, datetime.now(UTC)), nl=False)


def line(answer: Answer, output: Format, now: datetime) -> str:
    """The answer as one line, or as one document of YAML."""
    when = now.isoformat(timespec="seconds")
    shown: Mapping[str, Any] = {**answer.result, "observed_at": when}  # type: ignore[dict-item]  # the answer of `status`
    match output:
        case "json":
            return json.dumps(shown, ensure_ascii=False) + "\n"
        case "yaml":
            return "---\n" + render(Answer(shown), "yaml")
        case "text":
            advice = f"; next: {shown['next']}" if answer.exit_code else ""
            return printable(f"{when}  {shown['status']}: {shown['message']}{advice}") + "\n"
