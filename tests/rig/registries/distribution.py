"""The few calls of the OCI distribution API that tests make themselves, on the standard library.

Tools under test (cosign, Podman, containerd) bring their own clients; this one puts images into a registry,
looks at what those tools stored, and takes things away when a test sabotages.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from rig.base.errors import RigError

IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST_TYPES = (
    IMAGE_MANIFEST,
    IMAGE_INDEX,
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


@dataclass(frozen=True)
class Answer:
    """What the registry said: any status is an answer, only silence is an error."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Speaks with one registry; `ca_file` is the authority of its certificate, None for plain HTTP."""

    url: str
    ca_file: Path | None = None

    def push(self, layout: Path, repository: str, tag: str) -> str:
        """Copy the first image of an OCI layout into the registry; return its digest."""
        top = json.loads((layout / "index.json").read_text())["manifests"][0]
        self._push_manifest(layout, top, repository, tag)
        return str(top["digest"])

    def manifest(self, repository: str, reference: str) -> Answer:
        """A manifest by tag or digest."""
        return self.request(
            "GET", f"/v2/{repository}/manifests/{reference}", headers={"Accept": ", ".join(_MANIFEST_TYPES)}
        )

    def blob(self, repository: str, digest: str) -> Answer:
        return self.request("GET", f"/v2/{repository}/blobs/{digest}")

    def referrers(self, repository: str, digest: str) -> Answer:
        return self.request("GET", f"/v2/{repository}/referrers/{digest}")

    def tags(self, repository: str) -> list[str]:
        answer = self.request("GET", f"/v2/{repository}/tags/list")
        return list(answer.json().get("tags") or ()) if answer.status == 200 else []

    def delete_manifest(self, repository: str, digest: str) -> None:
        """Remove a manifest, and with it every tag that names it."""
        self._expect(self.request("DELETE", f"/v2/{repository}/manifests/{digest}"), 202)

    def request(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request; raises `OSError` when nobody answers."""
        request = urllib.request.Request(  # noqa: S310 - the URL is one the rig made
            urljoin(self.url, path), data=body, headers=dict(headers or {}), method=method
        )
        context = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as reply:  # noqa: S310 - as above
                return Answer(reply.status, dict(reply.headers), reply.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, dict(refusal.headers), refusal.read())

    def _push_manifest(
        self, layout: Path, descriptor: Mapping[str, Any], repository: str, reference: str
    ) -> None:
        body = _blob_file(layout, descriptor["digest"]).read_bytes()
        manifest = json.loads(body)
        for child in manifest.get("manifests", ()):
            self._push_manifest(layout, child, repository, child["digest"])
        for part in (*manifest.get("layers", ()), *filter(None, [manifest.get("config")])):
            self._push_blob(repository, _blob_file(layout, part["digest"]))
        path = f"/v2/{repository}/manifests/{reference}"
        self._expect(
            self.request("PUT", path, body=body, headers={"Content-Type": descriptor["mediaType"]}), 201
        )

    def _push_blob(self, repository: str, file: Path) -> None:
        digest = f"sha256:{file.name}"
        if self.request("HEAD", f"/v2/{repository}/blobs/{digest}").status == 200:
            return
        begun = self._expect(self.request("POST", f"/v2/{repository}/blobs/uploads/", body=b""), 202)
        location = begun.headers["Location"]
        target = f"{location}{'&' if '?' in location else '?'}digest={digest}"
        headers = {"Content-Type": "application/octet-stream"}
        self._expect(self.request("PUT", target, body=file.read_bytes(), headers=headers), 201)

    def _expect(self, answer: Answer, status: int) -> Answer:
        if answer.status != status:
            text = answer.body.decode(errors="replace")
            raise RigError(f"{self.url} answered {answer.status} where {status} was expected: {text}")
        return answer


def digest_of(body: bytes) -> str:
    """The digest under which a registry must serve these bytes."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _blob_file(layout: Path, digest: str) -> Path:
    algorithm, _, encoded = digest.partition(":")
    return layout / "blobs" / algorithm / encoded
