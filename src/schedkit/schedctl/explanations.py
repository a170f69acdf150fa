"""What to tell a user about an error of the parts that `schedctl` is put together from."""

from __future__ import annotations

from schedkit.model.catalog import InvalidCatalog, UnknownName
from schedkit.model.images import InvalidReference
from schedkit.oci.errors import NotFound, Refused, RegistryError, Unauthorized, Unreachable
from schedkit.schedctl.errors import Problem

# what to do next; the first that fits
_REGISTRY_REMEDIES: tuple[tuple[type[RegistryError], str], ...] = (
    (NotFound, "`schedctl versions` shows which versions there are; private images want a login first"),
    (Unauthorized, "log in with `podman login` or `docker login`, or ask for permission"),
    (Unreachable, "try again later; `schedctl catalog show NAME` works without a network"),
    (Refused, "do not use it; tell whoever runs the registry"),
)


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
        case InvalidReference():
            return Problem(str(error))
        case RegistryError():
            remedies = (remedy for kind, remedy in _REGISTRY_REMEDIES if isinstance(error, kind))
            return Problem(str(error), remedy=next(remedies, ""))
        case OSError(strerror=str(why)):
            return Problem(f"cannot use {error.filename or 'a file'}", why=why)
    return None
