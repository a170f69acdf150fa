"""What a registry's failure says about an image: that the image is no good, or nothing at all.

The first makes a SchedExt's `Verified` `False`, the second `Unknown`: a registry that was not heard has said
nothing about who signed the image, and is asked again.
"""

from __future__ import annotations

from enum import Enum, auto


class RegistryFailure(Enum):
    """How asking a registry about an image can fail."""

    INVALID_NAME = auto()  # no registry was asked: the image's name cannot be one
    NOT_FOUND = auto()  # the registry has no such image
    INVALID_ANSWER = auto()  # what the registry answered is invalid, hostile, or not what was asked for
    HEARSAY = auto()  # somebody says that the image is not there, in words that every proxy uses
    INTERCEPTED = auto()  # a proxy, or another server on the way, answered in the registry's place
    LOGIN = auto()  # the registry wants a login, or another one
    UNHEARD = auto()  # an outage, or a server that cannot prove to be the registry


_IS_THE_IMAGES_FAULT = frozenset(
    {RegistryFailure.INVALID_NAME, RegistryFailure.NOT_FOUND, RegistryFailure.INVALID_ANSWER}
)


def condemns_the_image(failure: RegistryFailure) -> bool:
    """Whether the image is no good, whoever may have signed it; otherwise nothing is known about it."""
    return failure in _IS_THE_IMAGES_FAULT
