"""The files a verifier and a signer need: whom to trust, and where to ask."""

from __future__ import annotations

import datetime as dt
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rig.signatures.sigstore import encoding, transparency
from rig.signatures.sigstore.authority import ORGANIZATION, CertificateAuthority


def trusted_root(
    authority: CertificateAuthority,
    ct_key: ec.EllipticCurvePrivateKey,
    log_key: ec.EllipticCurvePrivateKey,
    since: dt.datetime,
) -> dict[str, Any]:
    """The keys and certificates that verifiers believe."""
    valid = {"start": _timestamp(since)}
    chain = [
        {"rawBytes": encoding.b64(certificate.public_bytes(serialization.Encoding.DER))}
        for certificate in authority.chain
    ]
    return {
        "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
        "tlogs": [_log(f"https://{transparency.ORIGIN}", log_key, valid)],
        "certificateAuthorities": [
            {
                "subject": {"organization": ORGANIZATION, "commonName": "rig sigstore root"},
                "uri": "https://fulcio.rig.test",
                "certChain": {"certificates": chain},
                "validFor": valid,
            }
        ],
        "ctlogs": [_log("https://ctfe.rig.test", ct_key, valid)],
        "timestampAuthorities": [],
    }


def signing_config(url: str, since: dt.datetime) -> dict[str, Any]:
    """Where signers find certificate authority, identity provider and log: all at one address."""
    service = {
        "url": url,
        "majorApiVersion": 1,
        "validFor": {"start": _timestamp(since)},
        "operator": ORGANIZATION,
    }
    return {
        "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
        "caUrls": [service],
        "oidcUrls": [service],
        "rekorTlogUrls": [service],
        "rekorTlogConfig": {"selector": "ANY"},
        "tsaConfig": {},
    }


def _log(url: str, key: ec.EllipticCurvePrivateKey, valid: dict[str, str]) -> dict[str, Any]:
    return {
        "baseUrl": url,
        "hashAlgorithm": "SHA2_256",
        "publicKey": {
            "rawBytes": encoding.b64(encoding.public_der(key)),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": valid,
        },
        "logId": {"keyId": encoding.b64(encoding.key_id(key))},
    }


def _timestamp(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
