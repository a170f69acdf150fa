"""The transparency log's word that a signature was made public (step 7): promise, proof and checkpoint."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.sigstore.statements import InclusionProof, LogEntry
from schedkit.oci.sigstore.strict import base64_bytes
from schedkit.oci.sigstore.trusted_root import Log

_SIGNATURE_LINE: Final = re.compile(r"— (?P<name>\S{1,256}) (?P<signature>\S{8,1024})")
# what logs of Rekor's second version have: they sign checkpoints with their own name, and promise nothing
_SECOND_KIND: Final = "hashedrekord 0.0.2"
_MAX_SIGNATURES: Final = 32


def _refusal(why: str) -> Refusal:
    return Refusal(Step.LOG, why)


def logged(
    entries: Sequence[LogEntry], logs: Sequence[Log], *, needs_proof: bool
) -> tuple[tuple[LogEntry, Log], ...]:
    """Step 7: the entries that trusted logs really have, with their logs; there is at least one.

    What an unknown log says counts for nothing. What a known one says has to be right, all of it.
    """
    if not entries:
        raise _refusal("the signature is in no transparency log, so others cannot see it")
    known = [(entry, log) for entry in entries for log in logs if log.log_id == entry.log_id]
    if not known:
        name = entries[0].log_id.hex()[:16]
        raise _refusal(
            f"the signature is only in the log {name}…, which the trusted root or rekorURL leaves out"
        )
    for entry, log in known:
        _check_entry(entry, log, needs_proof=needs_proof)
    return tuple(known)


def _check_entry(entry: LogEntry, log: Log, *, needs_proof: bool) -> None:
    if entry.promise is None and entry.proof is None:
        raise _refusal("the log entry has neither a promise nor a proof that it is in the log")
    if needs_proof and entry.proof is None:
        raise _refusal("the log entry has no proof that it is in the log")
    if entry.promise is not None:
        _check_promise(entry, entry.promise, log)
    if entry.proof is not None:
        _check_proof(entry, entry.proof, log)


def _check_promise(entry: LogEntry, promise: bytes, log: Log) -> None:
    """The log signed that it will have this entry, at this position, from this time on."""
    if entry.integrated is None:
        raise _refusal("the log entry has a promise, but not the time of the promise")
    if not log.has_signed(promise, promised(entry)):
        raise _refusal("the log's promise was not made for this entry, or not by this log")


def promised(entry: LogEntry) -> bytes:
    """What the promise covers: the entry as canonical JSON."""
    content = {
        "body": base64.b64encode(entry.body).decode(),
        "integratedTime": int(entry.integrated.timestamp()) if entry.integrated else 0,
        "logID": entry.log_id.hex(),
        "logIndex": entry.index,
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _check_proof(entry: LogEntry, proof: InclusionProof, log: Log) -> None:
    """The entry is a leaf of the tree whose root the log has signed."""
    second = entry.kind == _SECOND_KIND
    checkpoint = _checkpoint(proof.checkpoint, log, named=second)
    if (checkpoint.size, checkpoint.root) != (proof.size, proof.root):
        raise _refusal("the proof of inclusion leads to a tree that the log has not signed")
    if second and entry.index != proof.index:
        raise _refusal("the proof of inclusion is for another position than the log entry's")
    if root_above(entry.body, proof) != proof.root:
        raise _refusal("the proof of inclusion does not lead from this entry to the root of the log")


class _Checkpoint(msgspec.Struct, frozen=True):
    size: int
    root: bytes


def _checkpoint(text: str, log: Log, *, named: bool) -> _Checkpoint:
    """The state of its tree that the log has signed; other signatures beside the log's say nothing here."""
    note, separator, signatures = text.partition("\n\n")
    note = f"{note}\n"
    lines = note.split("\n")
    if not separator or len(lines) < 4 or not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1]):
        raise _refusal("the log's checkpoint is not a signed note with origin, size and root")
    if named and lines[0] != log.host:
        raise _refusal(f"the log's checkpoint is from {lines[0][:80]!r}, but the log is {log.host!r}")
    if not any(_is_by(line, note, log, named=named) for line in signatures.split("\n")[:_MAX_SIGNATURES]):
        raise _refusal("the log's checkpoint was not signed by the log")
    return _Checkpoint(int(lines[1]), base64_bytes(lines[2], "the root in the checkpoint", limit=64))


def _is_by(line: str, note: str, log: Log, *, named: bool) -> bool:
    match = _SIGNATURE_LINE.fullmatch(line)
    if match is None or (named and match["name"] != log.host):
        return False
    signed = base64_bytes(match["signature"], "the checkpoint's signature", limit=1024)
    return signed[:4] == log.log_id[:4] and log.has_signed(signed[4:], note.encode())


def root_above(leaf: bytes, proof: InclusionProof) -> bytes | None:
    """The root that the path leads to (RFC 9162, section 2.1.3.2); None if it does not fit the tree."""
    if proof.index >= proof.size:
        return None
    index, last = proof.index, proof.size - 1
    found = hashlib.sha256(b"\x00" + leaf).digest()
    for sibling in proof.path:
        if last == 0:
            return None
        if index & 1 or index == last:
            found = hashlib.sha256(b"\x01" + sibling + found).digest()
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            found = hashlib.sha256(b"\x01" + found + sibling).digest()
        index, last = index >> 1, last >> 1
    return found if last == 0 else None
