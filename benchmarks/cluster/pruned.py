"""Imported first, hides what the operator's image leaves out: structlog would load `rich`, for 4 MiB."""

from __future__ import annotations

import sys

sys.modules["rich"] = None  # type: ignore[assignment]  # that is how an import is made to fail
