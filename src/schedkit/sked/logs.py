"""Logs on stderr: a JSON object per line for machines, or text for a person at a terminal."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor

# what libraries use the standard logger for is worth a line from there on
_LIBRARIES = logging.WARNING


def set_up(form: str, level: str) -> None:
    """Have everything that is logged from now on look like that."""
    is_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=_as_text() if is_text else _as_json(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=_LIBRARIES, handlers=[_Forwarder()], force=True)


def say_last_words(reason: str) -> None:
    """Why the process ends although nobody asked it to."""
    structlog.get_logger().error("manager_failed", reason=reason)


def _as_text() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _as_json() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    ]


class _Forwarder(logging.Handler):
    """Gives the lines of libraries the same look."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log it as ours."""
        structlog.get_logger().log(
            record.levelno,
            "library_said",
            library=record.name,
            said=record.getMessage(),
            exc_info=record.exc_info,
        )
