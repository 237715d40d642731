"""The CA of a cluster is verified before a secret is sent."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from sampan.cluster.join.discovery import (
    JoinError,
    ServerAddress,
    create_tls_context,
    discover,
    get,
    parse_server,
    select_pinned_certificates,
    trusted_certificates,
)
from sampan.cluster.join.grants import cluster_info
from sampan.cluster.join.token import JoinToken, new_token
from sampan.controllers.security.bootstrap_tokens import signature
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, make_ca, public_key_hash

NOW = 1_700_000_000.0
CA = make_ca("kubernetes", now=NOW)
EVIL = make_ca("kubernetes", now=NOW)
TOKEN = new_token(public_key_hash(CA.certificate))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1:6443"),
        ("10.0.0.1:7443", "10.0.0.1:7443"),
        ("https://example.org", "example.org:6443"),
        ("fd00::1", "[fd00::1]:6443"),
        ("[fd00::1]:7443", "[fd00::1]:7443"),
    ],
)
def test_parse_server_addresses(text: str, address: str) -> None:
    assert str(parse_server(text)) == address


@pytest.mark.parametrize("text", ["", "http://example.org", "host:port", "https://"])
def test_invalid_server_addresses_are_rejected(text: str) -> None:
    with pytest.raises(JoinError, match="SERVER"):
        parse_server(text)


def cluster_info_data(ca: bytes, token: JoinToken | None = None) -> dict[str, str]:
    content = cluster_info("https://10.0.0.1:6443", ca).data
    signed = (
        {}
        if token is None
        else {f"jws-kubeconfig-{token.id}": signature(content["kubeconfig"], token.id, token.secret)}
    )
    return {**content, **signed}


def test_the_pinned_ca_is_trusted() -> None:
    assert trusted_certificates(cluster_info_data(CA.certificate), TOKEN, "server").strip() == CA.certificate.strip()
    assert (
        trusted_certificates(cluster_info_data(CA.certificate, TOKEN), TOKEN, "server").strip()
        == CA.certificate.strip()
    )


def test_only_the_pinned_certificate_of_a_bundle_is_trusted() -> None:
    both = CA.certificate + EVIL.certificate
    assert trusted_certificates(cluster_info_data(both), TOKEN, "server").strip() == CA.certificate.strip()


def test_ca_that_does_not_match_the_hash_in_the_token_is_rejected() -> None:
    with pytest.raises(JoinError, match="Nothing was sent"):
        trusted_certificates(cluster_info_data(EVIL.certificate), TOKEN, "server")


def test_cluster_info_with_a_wrong_signature_is_rejected() -> None:
    forged = JoinToken(TOKEN.id, "0" * 16)
    with pytest.raises(JoinError, match="signature"):
        trusted_certificates(cluster_info_data(CA.certificate, forged), TOKEN, "server")


def test_token_without_ca_hash_requires_signed_cluster_info() -> None:
    bare = JoinToken(TOKEN.id, TOKEN.secret)
    assert (
        trusted_certificates(cluster_info_data(CA.certificate, TOKEN), bare, "server").strip() == CA.certificate.strip()
    )
    with pytest.raises(JoinError, match="not signed"):
        trusted_certificates(cluster_info_data(CA.certificate), bare, "server")


def test_a_renewed_ca_has_the_same_hash() -> None:
    renewed = make_ca("kubernetes", now=NOW + 1000, key=CA.key)
    assert renewed.certificate != CA.certificate
    assert select_pinned_certificates([renewed.certificate], TOKEN.ca_hash, "server") == renewed.certificate


# -- over the network --------------------------------------------------------------------------------------------------


@contextmanager
def running_server(ca: KeyPair, status: int, body: bytes, directory: Path) -> Iterator[tuple[ServerAddress, list[str]]]:
    """Yield the address of a server with a certificate of the CA, and the credentials that it receives."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    import time

    pair = issue(ca, SigningRequest(common_name="server", addresses=["127.0.0.1"], is_server=True), now=time.time())
    file = directory / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield ServerAddress("127.0.0.1", server.server_port), received
        finally:
            server.shutdown()
            thread.join()


def test_discovery_reads_the_ca_without_sending_credentials(tmp_path: Path) -> None:
    body = msgspec.json.encode({"data": cluster_info_data(CA.certificate)})
    with running_server(CA, 200, body, tmp_path) as (address, received):
        result = discover(address, TOKEN)
    assert result.ca_pem.strip() == CA.certificate.strip()
    assert result.server_time is not None
    assert received == [""]


def test_server_with_another_ca_never_receives_the_token(tmp_path: Path) -> None:
    body = msgspec.json.encode({"data": cluster_info_data(EVIL.certificate)})
    with (
        running_server(EVIL, 200, body, tmp_path) as (address, received),
        pytest.raises(JoinError, match="Nothing was sent"),
    ):
        discover(address, TOKEN)
    assert received == [""]


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [(404, b"{}", "sampan token create"), (403, b"{}", "--ca-file"), (200, b"hello", "not a Kubernetes API server")],
)
def test_response_without_cluster_info_is_an_error(status: int, body: bytes, text: str, tmp_path: Path) -> None:
    with running_server(CA, status, body, tmp_path) as (address, _), pytest.raises(JoinError, match=text):
        discover(address, TOKEN)


def test_server_certificate_of_an_unknown_ca_is_rejected(tmp_path: Path) -> None:
    with (
        running_server(EVIL, 200, b"{}", tmp_path) as (address, received),
        pytest.raises(JoinError, match="certificate"),
    ):
        get(address, "/version", create_tls_context(make_ca("kubernetes", now=NOW).certificate))
    assert received == []


def test_refused_connection_suggests_bind_address() -> None:
    with pytest.raises(JoinError, match="--bind-address"):
        discover(ServerAddress("127.0.0.1", 1), TOKEN)
