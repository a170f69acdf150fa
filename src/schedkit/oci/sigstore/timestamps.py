"""When a signature was made (step 9): by a log's promise, or by a timestamp authority (RFC 3161)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.sigstore.certificates import may_issue
from schedkit.oci.sigstore.statements import LogEntry, SignedStatement
from schedkit.oci.sigstore.strict import UNREADABLE
from schedkit.oci.sigstore.trusted_root import Authority, Log


def times_of(
    signed: SignedStatement, logged: Sequence[tuple[LogEntry, Log]], timestampers: Sequence[Authority]
) -> tuple[dt.datetime, ...]:
    """Step 9: every time at which the signature is known to have existed; there is at least one.

    A log's time counts only with its promise: a proof of inclusion does not cover it. A timestamp that nobody
    trusted made for this signature counts for nothing: whoever could add it could as well leave it out.
    """
    promised = [entry.integrated for entry, _ in logged if entry.promise and entry.integrated]
    stamped = [_stamped(stamp, signed.signature, timestampers) for stamp in signed.timestamps]
    times = (*promised, *(moment for moment in stamped if moment is not None))
    if not times:
        raise Refusal(Step.TIME, _undated(signed, timestampers))
    for moment in times:
        _check_logs(moment, logged)
    return times


def _undated(signed: SignedStatement, timestampers: Sequence[Authority]) -> str:
    why = "no trusted source says when it was signed: the signature has no promise from a log"
    if not signed.timestamps:
        return f"{why} and no timestamp"
    if not timestampers:
        return f"{why}, and the trusted root names no timestamp authority for its timestamp"
    return f"{why}, and its timestamp is not from a trusted authority, or is for another signature"


def _check_logs(moment: dt.datetime, logged: Sequence[tuple[LogEntry, Log]]) -> None:
    for _, log in logged:
        if not log.valid.covers(moment):
            raise Refusal(
                Step.TIME, f"the log's key was not valid at the time of signing, {moment.isoformat()}"
            )


def _stamped(stamp: bytes, signature: bytes, timestampers: Sequence[Authority]) -> dt.datetime | None:
    """The time in the timestamp, if a trusted authority made it for this signature while it was trusted."""
    for authority in timestampers:
        moment = _stamped_by(authority, stamp, signature)
        if moment is not None and authority.valid.covers(moment):
            return moment
    return None


def _stamped_by(authority: Authority, stamp: bytes, signature: bytes) -> dt.datetime | None:
    """The time in the timestamp, if this authority made it for this signature."""
    import rfc3161_client as rfc3161  # noqa: PLC0415 - most signatures have none, and it costs 20 ms

    leaf = authority.certificates[0] if len(authority.certificates) > 1 else None
    verifier = rfc3161.VerifierBuilder(
        tsa_certificate=leaf,
        intermediates=list(authority.certificates[1:-1]),
        roots=[authority.certificates[-1]],
    ).build()
    try:
        response = rfc3161.decode_timestamp_response(stamp)
        verifier.verify_message(response, signature)
        issuers = _issuers(authority, response.signed_data.certificates)
    except (*UNREADABLE, rfc3161.VerificationError):
        return None
    if not all(may_issue(one, ExtendedKeyUsageOID.TIME_STAMPING) for one in issuers):
        return None
    return response.tst_info.gen_time


def _issuers(authority: Authority, brought: Iterable[bytes]) -> list[x509.Certificate]:
    """All that can stand above the timestamp's certificate: an authority may be its root alone.

    The library then takes those between from the timestamp, which brings its own certificate as well.
    """
    listed = authority.certificates[1:] or authority.certificates
    return [*listed, *map(x509.load_der_x509_certificate, brought)]
