"""What tests of hostile servers share: one honest image, careless users, and limits that hold for all."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from rig.registries.distribution import IMAGE_MANIFEST
from rig.registries.hostile import (
    Behaviour,
    Request,
    Server,
    always,
    answer,
)
from schedkit.model.images.content import digest_of
from schedkit.model.images.references import Descriptor, Reference, Repository
from schedkit.oci.registry.challenges import Login
from schedkit.oci.registry.host import Patience

MIB = 1024 * 1024
# time enough for all but those who waste it, even on a busy machine
BRIEF = Patience(total_s=15, attempts=3, first_delay_s=0.02, longest_delay_s=0.1)
# for those who do
HASTY = Patience(total_s=1, attempts=3, first_delay_s=0.02, slowest_bytes_per_s=10 * MIB)
LAYER = bytes(range(256)) * 4096
LAYER_ENTRY = Descriptor("application/octet-stream", digest_of(LAYER), len(LAYER))
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "config": {"mediaType": "application/x", "digest": LAYER_ENTRY.digest, "size": 3},
        "layers": [],
    }
).encode()
IMAGE = digest_of(MANIFEST)
GOOD_MANIFEST = always(answer(200, MANIFEST, Content_Type=IMAGE_MANIFEST))


class EverybodysLogin:
    """A careless user: one login for everybody who asks."""

    def find(self, repository: Repository) -> Login | None:  # noqa: ARG002  # the port's signature
        return Login("careless", "secret-of-careless")


class TokenHolder:
    """A user who once logged in with a browser."""

    def find(self, repository: Repository) -> Login | None:  # noqa: ARG002  # the port's signature
        return Login(identity_token="long-lived")


def repository(server: Server) -> Repository:
    return Repository(server.host, "a")


def tagged(server: Server, tag: str = "v1") -> Reference:
    return Reference(repository(server), tag=tag)


def serve_manifest(server: Server, behaviour: Behaviour) -> None:
    server.behave("/v2/a/manifests/v1", behaviour)


def serve_layer(server: Server, behaviour: Behaviour) -> None:
    server.behave(f"/v2/a/blobs/{LAYER_ENTRY.digest}", behaviour)


def demand_login(then: Behaviour) -> Behaviour:
    def behave(request: Request) -> list[bytes]:
        if "authorization" not in request.headers:
            return [answer(401, WWW_Authenticate='Basic realm="x"')]
        return list(then(request))

    return behave


def unless_authorized(authorization: str, demand: str) -> Behaviour:
    """The manifest for those who have that; the demand for all others."""

    def behave(request: Request) -> list[bytes]:
        if request.headers.get("authorization") != authorization:
            return [answer(401, WWW_Authenticate=demand)]
        return [answer(200, MANIFEST, Content_Type=IMAGE_MANIFEST)]

    return behave


@contextmanager
def limits(*, seconds: float, mebibytes: int) -> Iterator[None]:
    """Fails when the block takes longer, or more memory at its peak."""
    tracemalloc.start()
    begun = time.monotonic()
    try:
        yield
        took, (_, peak) = time.monotonic() - begun, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < seconds
    assert peak < mebibytes * MIB
