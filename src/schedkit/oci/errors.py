"""What can go wrong with a registry; a class for each thing a caller does next.

RegistryError
├── NotFound      it is not there
├── Unauthorized  log in, or ask for permission
├── Unreachable   try again later: an outage, a timeout, or a server that broke
├── Uncertified   name the authority of its certificate, or do not ask it: who answers is not known
├── Intercepted   look at proxies: it is not even a registry's answer
├── Refused       do not use it: the answer is invalid or hostile
│   └── TooLarge     the answer is larger than anything of its kind should be
"""

from __future__ import annotations

from schedkit.model.images.references import brief


class RegistryError(Exception):
    """Anything that can go wrong with a registry; the message names it, and is never long."""

    def __init__(self, message: str) -> None:
        super().__init__(brief(message))


class NotFound(RegistryError):  # noqa: N818  # what happened, not what it is
    """The registry answered, and has no such thing."""

    def __init__(self, message: str, *, is_hearsay: bool = False) -> None:
        super().__init__(message)
        # few registries say no more than that; proxies do, about what they know nothing of
        self.is_hearsay = is_hearsay


class Unauthorized(RegistryError):  # noqa: N818  # as NotFound
    """The registry wants other credentials, or does not let these do that."""


class Unreachable(RegistryError):  # noqa: N818  # as NotFound
    """The registry could not be reached, was too slow or broke; later it may work."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s  # None: the registry did not say


class Uncertified(RegistryError):  # noqa: N818  # as NotFound
    """Whoever answers has no certificate to be trusted: nothing was asked, and nothing was found out."""


class Intercepted(RegistryError):  # noqa: N818  # as NotFound
    """A proxy or another server on the way refused the question: about what was asked it says nothing."""


class Refused(RegistryError):  # noqa: N818  # as NotFound
    """The answer is invalid, or not what was asked for; nothing of it was used."""


class TooLarge(Refused):
    """The answer is larger than anything of its kind should be; it was not read to its end."""
