"""The API server, as the user of a kubeconfig sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from schedkit import __version__
from schedkit.kube.access import config
from schedkit.kube.access.config import Connection
from schedkit.kube.direct import DirectClient
from schedkit.kube.errors import ConflictError, KubeError, NotFoundError
from schedkit.kube.resources import Described, Resource
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import ReportStatus
from schedkit.model.deploy.render import MANAGED_BY, MANAGER
from schedkit.sked.kinds import PODS, REPORTS

T = TypeVar("T", bound=Described)


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _ReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()


class _Nameless(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Review(msgspec.Struct, frozen=True):
    metadata: _Nameless | None = None
    status: _ReviewStatus = _ReviewStatus()


_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", _Review, namespaced=False
)


class Cluster:
    """Reads and writes with the caller's own rights."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = DirectClient(connection, f"kubectl-sked/{__version__}")

    @property
    def namespace(self) -> str:
        """The namespace that is meant when none is named."""
        return self._connection.namespace

    def find(self, kind: Resource[T], name: str, namespace: str | None = None) -> T | None:
        """The object; None: there is none of that name."""
        try:
            return self._client.get(kind, name, namespace, token=self._token())
        except NotFoundError:
            return None

    def every(self, kind: Resource[T], namespace: str | None = None, **selection: str) -> Iterator[T]:
        """All objects of the kind; None: of every namespace."""
        return self._client.every(kind, namespace, token=self._token(), **selection)

    def change(self, kind: Resource[T], patch: object, name: str, namespace: str | None = None) -> T:
        """Apply a JSON patch."""
        return self._client.change(kind, patch, name, namespace, token=self._token())

    def delete(self, kind: Resource[T], name: str, namespace: str | None, *, uid: str) -> None:
        """Delete this very object; one that is gone already, or is another one by now, is as good."""
        with suppress(NotFoundError, ConflictError):
            self._client.delete(kind, name, namespace, uid=uid, token=self._token())

    def caller(self) -> str:
        """Who the API server takes the caller for; empty: it does not say."""
        body = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind}
        try:
            return self._client.create(_REVIEWS, body, token=self._token()).status.user_info.username
        except KubeError:
            return ""  # a name is worth less than the stop

    def pods_of(self, name: str, namespace: str) -> Iterator[Pod]:
        """The pods that sked made for that SchedExt: their DaemonSet has its name."""
        selection = {"labelSelector": f"{MANAGED_BY}={MANAGER}"}
        for pod in self.every(PODS, namespace, **selection):
            owner = pod.metadata.controller
            is_its = owner is not None and (owner.kind, owner.name) == ("DaemonSet", name)
            if is_its and pod.spec.node_name:
                yield pod

    def reports(self) -> Mapping[str, ReportStatus]:
        """What the kernels run, by node; empty where no agents are installed."""
        try:
            found = list(self.every(REPORTS))
        except NotFoundError:
            return {}
        return {each.metadata.name: each.status for each in found if each.status is not None}

    def _token(self) -> str | None:
        return asyncio.run(self._connection.credentials.token())


def connect(kubeconfig: Path | None, context: str | None) -> Cluster:
    """As kubectl finds it."""
    return Cluster(config.discover(kubeconfig, context=context))
