"""Which node and pod this process is in: by its own token, which the API server made for it."""

from __future__ import annotations

import base64
import binascii

import msgspec

from schedkit.kube.errors import ConfigError


class _Object(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Bound(msgspec.Struct, frozen=True):
    node: _Object = _Object()
    pod: _Object = _Object()


class _Claims(msgspec.Struct, frozen=True):
    bound: _Bound = msgspec.field(default=_Bound(), name="kubernetes.io")


class Place(msgspec.Struct, frozen=True):
    """The node and the pod that a token was made for."""

    node: str
    node_uid: str
    pod_uid: str


def place_of_token(token: str | None) -> Place:
    """Read the token, which the API server verifies; raise `ConfigError` if it names no node."""
    try:
        part = (token or "").split(".")[1]
        content = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        bound = msgspec.json.decode(content, type=_Claims).bound
    except (IndexError, binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise ConfigError("the token is none of a service account: run the agent in its pod") from error
    if not (bound.node.name and bound.node.uid):
        raise ConfigError(
            "the token does not name a node: run the agent in a pod, on Kubernetes 1.30 or newer"
        )
    return Place(bound.node.name, bound.node.uid, bound.pod.uid)
