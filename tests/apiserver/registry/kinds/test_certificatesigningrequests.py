"""CertificateSigningRequests: rules that the golden replay does not cover."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from sampan.apiserver.registry.certificate_rules import find_certificate_error, find_request_error, validate_signer_name
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.every_kind import CSR
from tests.apiserver.validation_errors import messages_of, named_object

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
VALUE = named_object(spec={"signerName": "example.com/s", "usages": ["client auth"], "request": CSR})
APPROVED = {"type": "Approved", "status": "True", "reason": "R"}
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])


def certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(NAME, NAME, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def encode_base64(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_request_with_invalid_signature_is_rejected() -> None:
    lines = base64.b64decode(CSR).decode().splitlines()
    body = bytearray(base64.b64decode("".join(lines[1:-1])))
    body[-1] ^= 1
    forged = f"{lines[0]}\n{encode_base64(bytes(body))}\n{lines[-1]}\n"
    assert find_request_error(base64.b64decode(CSR)) == ""
    assert find_request_error(forged.encode()) == "x509: ECDSA verification failure"
    assert find_request_error(
        b"-----BEGIN CERTIFICATE REQUEST-----\naGk=\n-----END CERTIFICATE REQUEST-----\n"
    ).startswith("asn1:")


def test_errors_of_issued_certificates() -> None:
    pem = certificate()
    assert find_certificate_error(pem + pem) == ""
    assert find_certificate_error(b"x") == "must contain at least one CERTIFICATE PEM block"
    assert (
        find_certificate_error(pem.replace(b"CERTIFICATE", b"X"))
        == 'only CERTIFICATE PEM blocks are allowed, found "X"'
    )
    with_header = pem.replace(b"-----\n", b"-----\na: b\n\n", 1)
    assert find_certificate_error(with_header) == "no PEM block headers are permitted"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.example.com/path.to/x", 's: Invalid value: "a.example.com/path.to/x": must be a fully qualified domain'),
        ("example/x", 's: Invalid value: "example": should be a domain with at least two segments'),
        ("Ex.com/x", 's: Invalid value: "Ex.com": validating label "Ex": a lowercase RFC 1123 label'),
        ("example.com/X", 's: Invalid value: "X": validating label "X": a lowercase RFC 1123 subdomain'),
    ],
)
def test_invalid_signer_names_are_rejected(name: str, start: str) -> None:
    assert [str(fault)[: len(start)] for fault in validate_signer_name(name, "s")] == [start]


def test_approval_and_status_subresources_write_separate_fields() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.make(PATH, {**VALUE, "status": {"conditions": [APPROVED]}})
        assert (created["spec"]["username"], created["status"]) == ("admin", {})
        added = {"status": {"conditions": [APPROVED]}}
        assert messages_of(await cluster.patch(f"{PATH}/a/status", added)) == [
            'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
        ]
        approved = (
            await cluster.patch(f"{PATH}/a/approval", {"status": {**added["status"], "certificate": "eA=="}})
        ).json
        condition = approved["status"]["conditions"][0]
        assert condition["lastUpdateTime"] == condition["lastTransitionTime"]
        assert "certificate" not in approved["status"]

    run_in_cluster(work)


def test_issued_certificate_is_immutable() -> None:
    first, second = encode_base64(certificate()), encode_base64(certificate())

    async def work(cluster: Cluster) -> None:
        await cluster.make(PATH, VALUE)
        await cluster.patch(f"{PATH}/a/approval", {"status": {"conditions": [APPROVED]}})
        issued = await cluster.patch(f"{PATH}/a/status", {"status": {"certificate": first}})
        assert issued.code == 200, issued.json
        assert (await cluster.get_cells(PATH))[0][2:] == ["example.com/s", "admin", "<none>", "Approved,Issued"]
        assert messages_of(await cluster.patch(f"{PATH}/a/status", {"status": {"certificate": second}})) == [
            "status.certificate: Forbidden: updates may not modify existing certificate content"
        ]

    run_in_cluster(work)


def test_status_update_does_not_change_the_approval_condition() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(PATH, VALUE)
        approved = (await cluster.patch(f"{PATH}/a/approval", {"status": {"conditions": [APPROVED]}})).json
        other: dict[str, Any] = {**APPROVED, "reason": "Other"}
        failed = {"type": "Failed", "status": "True"}
        patched = (await cluster.patch(f"{PATH}/a/status", {"status": {"conditions": [other, failed]}})).json
        assert patched["status"]["conditions"][0] == approved["status"]["conditions"][0]
        assert (await cluster.get_cells(PATH))[0][-1] == "Approved,Failed"

    run_in_cluster(work)
