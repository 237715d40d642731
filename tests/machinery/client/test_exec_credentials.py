"""Credentials from exec plugins and OpenID Connect providers."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sampan.machinery.client.exec_credentials import CredentialError, ExecCredentialSource, OidcCredentialSource

VERSION = "client.authentication.k8s.io/v1"


def plugin(path: Path, status: dict[str, Any], *, version: str = VERSION) -> dict[str, Any]:
    """Return an exec entry whose command prints the status and records its calls."""
    value = {"kind": "ExecCredential", "apiVersion": version, "status": status}
    path.write_text(
        f"#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO$WORD\" >> {path}.calls\ncat <<'EOF'\n{json.dumps(value)}\nEOF\n"
    )
    path.chmod(0o755)
    return {"command": str(path), "apiVersion": VERSION, "env": [{"name": "WORD", "value": "hello"}]}


def calls(path: Path) -> list[str]:
    return Path(f"{path}.calls").read_text().splitlines()


def test_credentials_are_cached_until_they_expire(tmp_path: Path) -> None:
    path = tmp_path / "plugin"
    source = ExecCredentialSource(plugin(path, {"token": "abc"}), {})
    assert [source.credentials().token for _ in range(3)] == ["abc"] * 3
    assert len(calls(path)) == 1
    expired = plugin(path, {"token": "abc", "expirationTimestamp": "2000-01-01T00:00:00Z"})
    source = ExecCredentialSource(expired | {"provideClusterInfo": True}, {"server": "https://x"})
    assert [source.credentials().token for _ in range(2)] == ["abc"] * 2
    assert len(calls(path)) == 3
    assert calls(path)[-1].endswith('"cluster": {"server": "https://x"}}}hello')


def test_plugin_returns_a_client_certificate(tmp_path: Path) -> None:
    source = ExecCredentialSource(
        plugin(tmp_path / "plugin", {"clientCertificateData": "cert", "clientKeyData": "key"}), {}
    )
    assert (source.credentials().client_cert_pem, source.credentials().client_key_pem) == (b"cert", b"key")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "didn't return a token or cert/key pair"),
        ({"clientKeyData": "key"}, "only certificate or key, not both"),
    ],
)
def test_incomplete_credentials_are_rejected(tmp_path: Path, status: dict[str, Any], message: str) -> None:
    with pytest.raises(CredentialError, match=message):
        ExecCredentialSource(plugin(tmp_path / "plugin", status), {}).credentials()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": "false"}, "executable false failed with exit code 1"),
        ({"command": "no-such-program"}, "executable no-such-program not found"),
        ({"command": "echo"}, "decoding stdout"),
        ({"interactiveMode": "Sometimes"}, "unknown interactiveMode"),
    ],
)
def test_failing_plugin_raises_credential_error(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    entry = plugin(tmp_path / "plugin", {"token": "abc"}) | change
    with pytest.raises(CredentialError, match=message):
        ExecCredentialSource(entry, {}).credentials()


def test_plugin_with_another_api_version_is_rejected(tmp_path: Path) -> None:
    entry = plugin(tmp_path / "plugin", {"token": "abc"}, version=f"{VERSION}beta1")
    with pytest.raises(CredentialError, match="configured to use API version"):
        ExecCredentialSource(entry, {}).credentials()


def id_token(expires_at: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode().rstrip("=")
    return f"header.{claims}.signature"


class Issuer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._send({"token_endpoint": f"http://{self.headers['Host']}/token"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert "refresh_token=old" in body
        self._send({"id_token": id_token(time.time() + 3600), "refresh_token": "new"})

    def _send(self, value: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Issuer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_expired_id_token_is_refreshed_and_stored(issuer: str) -> None:
    stored: list[dict[str, str]] = []
    config = {"idp-issuer-url": issuer, "client-id": "x", "id-token": id_token(1), "refresh-token": "old"}
    source = OidcCredentialSource(config, lambda tokens: stored.append(dict(tokens)))
    token = source.credentials().token
    assert source.credentials().token == token
    assert [(tokens["id-token"], tokens["refresh-token"]) for tokens in stored] == [(token, "new")]


def test_an_id_token_cannot_be_refreshed_without_a_refresh_token() -> None:
    config = {"idp-issuer-url": "http://127.0.0.1:1", "client-id": "x"}
    with pytest.raises(CredentialError, match="cannot refresh without refresh-token"):
        OidcCredentialSource(config, lambda tokens: None).credentials()
