"""PodCertificateRequests: the states that a recorded scenario cannot have, because certificates age."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sampan.api.types.certificates_v1beta1 import PodCertificateRequest
from sampan.apiserver.registry.kinds import podcertificaterequests
from tests.apiserver.registry.kind_rules import NOW, Rules

START = datetime.fromtimestamp(NOW, UTC)
KEY = Ed25519PrivateKey.generate()
EMPTY = x509.Name([])
REQUEST = x509.CertificateSigningRequestBuilder().subject_name(EMPTY).sign(KEY, None).public_bytes(Encoding.DER)
SPEC = {
    "signerName": "example.com/x",
    "podName": "p",
    "podUID": "u",
    "serviceAccountName": "s",
    "serviceAccountUID": "v",
    "nodeName": "n",
    "nodeUID": "w",
    "maxExpirationSeconds": 7200,
    "stubPKCS10Request": base64.b64encode(REQUEST).decode(),
}
RULES = Rules(podcertificaterequests.BEHAVIOR, PodCertificateRequest, SPEC)


def condition(name: str) -> dict[str, Any]:
    time = "2026-01-02T03:04:05Z"
    return {"type": name, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": time}


def make_chain(life: timedelta = timedelta(hours=1), start: datetime = START, key: Ed25519PrivateKey = KEY) -> str:
    """Return a certificate as PEM."""
    builder = x509.CertificateBuilder(EMPTY, EMPTY, key.public_key(), 1, start, start + life)
    return builder.sign(KEY, None).public_bytes(Encoding.PEM).decode()


def status_of(certificates: str, *, start: float = 0, refresh: float = 1800, end: float = 3600) -> dict[str, Any]:
    """Return a status with times in seconds from now."""
    names = {"notBefore": start, "beginRefreshAt": refresh, "notAfter": end}
    times = {name: (START + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in names.items()}
    return {"conditions": [condition("Issued")], "certificateChain": certificates, **times}


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (status_of(make_chain()), ""),
        (status_of(make_chain() + make_chain()), ""),
        (
            status_of(make_chain(key=Ed25519PrivateKey.generate())),
            "leaf certificate was not issued to the requested public key",
        ),
        (status_of(make_chain(), start=1), "must be set to the NotBefore time encoded in the leaf certificate"),
        (status_of(make_chain(), end=3601), "must be set to the NotAfter time encoded in the leaf certificate"),
        (
            status_of(make_chain(start=START - timedelta(minutes=5)), start=-300, end=3300),
            "must be set to within 5 minutes of kube-apiserver's current time",
        ),
        (status_of(make_chain(timedelta(minutes=59)), end=3540), "leaf certificate lifetime must be >= 1 hour"),
        (
            status_of(make_chain(timedelta(hours=3)), end=10800),
            "leaf certificate lifetime must be <= spec.maxExpirationSeconds (7200)",
        ),
        (status_of(make_chain(), refresh=599), "must be at least 10 minutes after status.notBefore"),
        (status_of(make_chain(), refresh=3001), "must be at least 10 minutes before status.notAfter"),
        (
            status_of(make_chain() + "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"),
            "intermediate certificate does not parse as valid X.509",
        ),
        (
            {"conditions": [condition("Issued")], "certificateChain": make_chain()},
            "must be present and consistent with the",
        ),
    ],
)
def test_issued_certificate(status: dict[str, Any], fault: str) -> None:
    faults = RULES.update_status(RULES.create(), status)[1]
    assert bool(faults) == bool(fault)
    assert not faults or fault in faults[0]


def test_deprecated_key_needs_proof_of_possession() -> None:
    key = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    spec = {"stubPKCS10Request": None, "pkixPublicKey": base64.b64encode(key).decode()}

    def collect_errors(proof: bytes) -> list[str]:
        return RULES.faults({**spec, "proofOfPossession": base64.b64encode(proof).decode()})

    assert collect_errors(KEY.sign(b"u")) == []
    assert collect_errors(KEY.sign(b"v")) == [
        "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"
    ]
