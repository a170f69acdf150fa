"""The transparency log: what was signed, when, with a promise and a proof (Rekor, version 1)."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import threading
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from rig.signatures.sigstore import encoding, merkle

ORIGIN = "rekor.rig.test"
_TREE_ID = 0x5C4ED_EC0DE


@dataclass(frozen=True)
class Entry:
    """One line of the log with the evidence that it is there."""

    body: bytes
    index: int
    integrated_time: int
    log_id: bytes
    promise: bytes
    tree_size: int
    root: bytes
    path: tuple[bytes, ...]
    checkpoint: str

    @property
    def uuid(self) -> str:
        return f"{_TREE_ID:016x}{merkle.leaf_hash(self.body).hex()}"

    def answer(self) -> dict[str, Any]:
        """The entry as the log's API gives it out."""
        proof = {
            "checkpoint": self.checkpoint,
            "hashes": [sibling.hex() for sibling in self.path],
            "logIndex": self.index,
            "rootHash": self.root.hex(),
            "treeSize": self.tree_size,
        }
        verification = {"inclusionProof": proof, "signedEntryTimestamp": encoding.b64(self.promise)}
        return {
            **_promised(self.body, self.index, self.integrated_time, self.log_id),
            "verification": verification,
        }

    def promised(self) -> dict[str, Any]:
        """The entry with its promise alone, as cosign 2 keeps it."""
        payload = _promised(self.body, self.index, self.integrated_time, self.log_id)
        return {"SignedEntryTimestamp": encoding.b64(self.promise), "Payload": payload}


class TransparencyLog:
    """An append-only list with a key."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._lock = threading.Lock()
        # Index 0 is never handed out: JSON writers drop zeroes, and strict readers then miss the field.
        self._bodies = [b"the first entry, which nobody asked for"]
        self._entries: dict[str, Entry] = {}

    @property
    def log_id(self) -> bytes:
        return encoding.key_id(self.key)

    def append(self, body: bytes, at: dt.datetime) -> Entry:
        """Add a line; from now on it is provably in the log."""
        with self._lock:
            self._bodies.append(body)
            entry = self._prove(len(self._bodies) - 1, int(at.timestamp()))
            self._entries[entry.uuid] = entry
            return entry

    @property
    def newest(self) -> Entry:
        """The entry that was added last."""
        return next(reversed(self._entries.values()))

    def find(self, uuid: str) -> Entry | None:
        return self._entries.get(uuid)

    def _prove(self, index: int, integrated_time: int) -> Entry:
        body, root = self._bodies[index], merkle.root_hash(self._bodies)
        promised = _promised(body, index, integrated_time, self.log_id)
        return Entry(
            body=body,
            index=index,
            integrated_time=integrated_time,
            log_id=self.log_id,
            promise=encoding.sign(self.key, encoding.canonical_json(promised)),
            tree_size=len(self._bodies),
            root=root,
            path=tuple(merkle.inclusion_path(index, self._bodies)),
            checkpoint=self._checkpoint(root),
        )

    def _checkpoint(self, root: bytes) -> str:
        """A signed note: size and root of the log at this moment."""
        note = f"{ORIGIN} - {_TREE_ID}\n{len(self._bodies)}\n{encoding.b64(root)}\n"
        signature = self.log_id[:4] + encoding.sign(self.key, note.encode())
        return f"{note}\n\N{EM DASH} {ORIGIN} {encoding.b64(signature)}\n"


def _promised(body: bytes, index: int, integrated_time: int, log_id: bytes) -> dict[str, Any]:
    """What the signed entry timestamp covers."""
    return {
        "body": encoding.b64(body),
        "integratedTime": integrated_time,
        "logID": log_id.hex(),
        "logIndex": index,
    }


def body_of(proposal: dict[str, Any]) -> bytes:
    """The line that a proposed entry becomes; `ValueError` for kinds that nobody here proposes."""
    spec = _SPECS.get(proposal["kind"])
    if spec is None:
        raise ValueError(f"entries of kind {proposal['kind']!r} are not supported; use {' or '.join(_SPECS)}")
    entry = {"apiVersion": "0.0.1", "kind": proposal["kind"], "spec": spec(proposal["spec"])}
    return encoding.canonical_json(entry)


def _hashedrekord(spec: dict[str, Any]) -> dict[str, Any]:
    return {"data": spec["data"], "signature": spec["signature"]}


def _dsse(spec: dict[str, Any]) -> dict[str, Any]:
    """The log keeps hashes of the envelope and its payload, not the payload."""
    proposed = spec["proposedContent"]
    envelope = json.loads(proposed["envelope"])
    pairs = zip(envelope["signatures"], proposed["verifiers"], strict=True)
    return {
        "envelopeHash": _sha256(proposed["envelope"].encode()),
        "payloadHash": _sha256(base64.b64decode(envelope["payload"])),
        "signatures": [
            {"signature": signature["sig"], "verifier": verifier} for signature, verifier in pairs
        ],
    }


def _sha256(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


_SPECS = {"hashedrekord": _hashedrekord, "dsse": _dsse}
