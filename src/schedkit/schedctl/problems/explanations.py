"""What to tell a user about an error of the parts that `schedctl` is put together from."""

from __future__ import annotations

import os
from functools import singledispatch
from itertools import chain
from pathlib import Path

from schedkit.model.catalog import InvalidCatalog, UnknownName
from schedkit.model.images.references import InvalidReference
from schedkit.model.trust.policy import InvalidPolicy
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.errors import (
    Intercepted,
    NotFound,
    Refused,
    RegistryError,
    Unauthorized,
    Uncertified,
    Unreachable,
)
from schedkit.runtimes.errors import ContainerRuntimeError, NoSocketError, NotAnsweringError
from schedkit.schedctl.problems import elsewhere
from schedkit.schedctl.problems.problem import Problem, in_words

# what to do next; the first that fits
_REGISTRY_REMEDIES: tuple[tuple[type[RegistryError], str], ...] = (
    (NotFound, "`schedctl versions NAME` lists the versions; private images need a login first"),
    (Unauthorized, "log in with `podman login` or `docker login`, or ask for permission"),
    (Unreachable, "try again later; `schedctl catalog show NAME` works without a network"),
    (Intercepted, "check HTTPS_PROXY and NO_PROXY, and any proxy between this machine and the registry"),
    (Uncertified, "do not use this registry while its certificate is not trusted; tell its operator"),
    (Refused, "do not use what this registry sent; tell the registry's operator"),
)
# by the words themselves, before all others
_TOLD_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("name resolution", "Name or service not known", "No address associated", "Network is unreachable"),
        (
            "check the name, and this machine's network and name server;"
            " if there is a proxy, set HTTPS_PROXY to its address;"
            " without a network, `--layout FOLDER` reads images that"
            " `schedctl mirror NAME --to oci:FOLDER` has copied"
        ),
    ),
    (
        ("is not an image layout",),
        "name another folder with --layout, or fill it: `schedctl mirror NAME --to oci:FOLDER`",
    ),
)
_TRUST_REMEDIES = {
    Step.RULE: "use --trust-policy to name a policy that trusts a signer for this repository",
    Step.EVIDENCE: (
        "ask the image's publisher for a signed image;"
        " if it comes from a mirror, the signatures may not have been copied"
    ),
    Step.SIGNER: "if you trust this signer, add it to a policy and name the policy with --trust-policy",
}
_FILE_REMEDIES: tuple[tuple[type[OSError], str], ...] = (
    (FileNotFoundError, "check the path"),
    (PermissionError, "run as root, or name a file that you may use"),
    (IsADirectoryError, "name a file in this folder"),
)
_MOST_OTHERS = 5
_NOT_REACHED = (NoSocketError, NotAnsweringError)  # and not those who took the call, or may not be asked


@singledispatch
def explain(error: Exception) -> Problem | None:  # noqa: ARG001 - of other errors nothing is known
    """The problem behind an error, or None when no user can do anything about it."""
    return None


@explain.register
def _(error: InvalidCatalog) -> Problem:
    return Problem("the catalog cannot be used", why=str(error), remedy="correct it, or name another catalog")


@explain.register
def _(error: UnknownName) -> Problem:
    what, _, remedy = str(error).partition(". ")
    return Problem(what, remedy=remedy)


@explain.register
def _(error: InvalidReference) -> Problem:
    return Problem(str(error))


@explain.register
def _(error: RegistryError) -> Problem:
    said = in_words(error)
    told = (remedy for words, remedy in _TOLD_REMEDIES if any(each in said for each in words))
    usual = (remedy for kind, remedy in _REGISTRY_REMEDIES if isinstance(error, kind))
    return Problem(said, remedy=next(chain(told, usual), ""))


@explain.register
def _(error: InvalidPolicy) -> Problem:
    remedy = "correct it; until then no image is trusted"
    return Problem("the trust policy cannot be used", why=str(error), remedy=remedy)


@explain.register
def _(error: Refusal) -> Problem:
    others = "".join(f"; another signature: {other}" for other in error.others[:_MOST_OTHERS])
    if len(error.others) > _MOST_OTHERS:
        others += f"; and {len(error.others) - _MOST_OTHERS} more"
    return Problem(f"{error}{others}", remedy=_TRUST_REMEDIES.get(error.step, "do not use the image"))


@explain.register
def _(error: ContainerRuntimeError) -> Problem:
    remedies = (error.hint, *(_elsewhere(error) if type(error) in _NOT_REACHED else ()))
    return Problem(str(error).removesuffix(f"; {error.hint}"), remedy="; ".join(filter(None, remedies)))


def _elsewhere(error: ContainerRuntimeError) -> tuple[str, ...]:
    """Which runtimes there are beside one that was not reached at all, and who may ask them."""
    others = elsewhere.advice(Path("/"), elsewhere.USUAL + elsewhere.CLUSTERS, tried=str(error))
    return others, "" if os.geteuid() == 0 else "then run schedctl as root, for example with sudo"


@explain.register
def _(error: OSError) -> Problem | None:
    if not error.strerror:
        return None
    remedies = (remedy for kind, remedy in _FILE_REMEDIES if isinstance(error, kind))
    what = f"cannot use {error.filename or 'a file'}"
    return Problem(what, why=error.strerror, remedy=next(remedies, ""))
