"""The TLS versions and cipher suites that servers accept, seen in handshakes."""

import ssl

import pytest

from sampan.cli.components.component_port import tls_of
from sampan.machinery.pki.server_tls import ServerTlsSettings, UnknownTlsName

GCM, CHACHA = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
OPENSSL_GCM, OPENSSL_CHACHA = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"
TLS_13_SUITE = "TLS_AES_128_GCM_SHA256"


def negotiate(settings: ServerTlsSettings, *, ciphers: str | None = None, version: ssl.TLSVersion) -> tuple[str, str]:
    """Return the suite and the version on which a server with these settings and such a client agree."""
    server_context = tls_of(None, None, name="server", settings=settings)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    client_context.maximum_version = version
    if ciphers is not None:
        client_context.set_ciphers(ciphers)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    suite = client.cipher()
    assert suite is not None
    return suite[0], suite[1]


def test_only_configured_cipher_suites_are_accepted() -> None:
    settings = ServerTlsSettings.parse(cipher_suites=[CHACHA])
    tls_12 = ssl.TLSVersion.TLSv1_2
    assert negotiate(settings, version=tls_12)[0] == OPENSSL_CHACHA
    assert negotiate(ServerTlsSettings(), ciphers=OPENSSL_GCM, version=tls_12)[0] == OPENSSL_GCM
    with pytest.raises(ssl.SSLError):
        negotiate(settings, ciphers=OPENSSL_GCM, version=tls_12)


def test_suites_of_tls_13_are_always_offered() -> None:
    settings = ServerTlsSettings.parse(cipher_suites=[GCM, TLS_13_SUITE])
    assert negotiate(settings, version=ssl.TLSVersion.TLSv1_3)[1] == "TLSv1.3"
    assert negotiate(settings, version=ssl.TLSVersion.TLSv1_2)[0] == OPENSSL_GCM


@pytest.mark.parametrize(
    "settings",
    [ServerTlsSettings.parse(min_version="VersionTLS13"), ServerTlsSettings.parse(cipher_suites=[TLS_13_SUITE])],
    ids=["minimum version", "only suites of TLS 1.3"],
)
def test_tls_12_is_rejected(settings: ServerTlsSettings) -> None:
    with pytest.raises(ssl.SSLError):
        negotiate(settings, version=ssl.TLSVersion.TLSv1_2)


def test_unknown_tls_versions_and_cipher_suites_are_rejected() -> None:
    with pytest.raises(UnknownTlsName, match="'VersionTLS10'; supported: VersionTLS12, VersionTLS13"):
        ServerTlsSettings.parse(min_version="VersionTLS10")
    with pytest.raises(UnknownTlsName, match="cipher suite TLS_RSA_WITH_RC4_128_SHA does not exist"):
        ServerTlsSettings.parse(cipher_suites=[GCM, "TLS_RSA_WITH_RC4_128_SHA"])
