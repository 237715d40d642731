"""The users that certificates name: the kubelet and the API server must agree."""

from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca, subject_common_name
from sampan.machinery.pki.server_tls import PeerCertificate, read_peer

SUBJECT = (
    (("commonName", "first"),),
    (("organizationName", "a"),),
    (("organizationName", "b"), ("commonName", "last")),
)


def test_last_of_two_common_names_is_used() -> None:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    names = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in ("first", "last")])
    peer = read_peer({"subject": SUBJECT, "notAfter": "Jan  1 00:00:00 2030 GMT"})
    assert peer == PeerCertificate("last", ("a", "b"), 1893456000.0)
    assert subject_common_name(names) == "last"


def test_certificate_without_a_subject_has_an_empty_common_name() -> None:
    assert read_peer({"subject": ()}) == PeerCertificate("", (), float("inf"))


def test_expiry() -> None:
    peer = PeerCertificate("a", (), 100.0)
    assert [peer.is_expired(now) for now in (99.0, 100.0, 100.5)] == [False, False, True]


def test_certificates_are_issued_with_one_common_name() -> None:
    from cryptography import x509

    pair = issue(make_ca("ca", now=0), SigningRequest(common_name="n", organizations=["o"], is_client=True), now=0)
    assert x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string() == "CN=n,O=o"
