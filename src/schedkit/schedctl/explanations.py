"""What to tell a user about an error of the parts that `schedctl` is put together from."""

from __future__ import annotations

from schedkit.model.catalog import InvalidCatalog, UnknownName
from schedkit.schedctl.errors import Problem


def explain(error: Exception) -> Problem | None:
    """The problem behind an error, or None when no user can do anything about it."""
    match error:
        case InvalidCatalog():
            return Problem(
                "the catalog cannot be used", why=str(error), remedy="mend it, or name another one"
            )
        case UnknownName():
            what, _, remedy = str(error).partition(". ")
            return Problem(what, remedy=remedy)
        case OSError(strerror=str(why)):
            return Problem(f"cannot use {error.filename or 'a file'}", why=why)
    return None
