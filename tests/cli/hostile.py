"""A running `sampan up` for tests of attacks: users with few rights, certificates of the cluster CA, and servers that
pose as kubelets."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sampan.cluster.pki import CA, Pki
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, make_ca
from sampan.machinery.pki.server_tls import read_peer
from tests.cli.command import Sampan
from tests.eventually import wait_until
from tests.ports import free_port

PATIENCE_S = 60


@dataclass(frozen=True)
class Reply:
    code: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class HostileCluster:
    sampan: Sampan
    port: int
    directory: Path
    files: Path
    """The directory to which tests write certificates."""
    _contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)

    @property
    def pki(self) -> Pki:
        return Pki(self.directory / "pki")

    def context(self, name: str) -> ssl.SSLContext:
        """Return the TLS context of a client with a certificate of the cluster's PKI or of `issue`."""
        context = ssl.create_default_context(cafile=str(self.pki.certificate(CA)))
        place = self.files if (self.files / f"{name}.crt").exists() else self.pki.directory
        context.load_cert_chain(place / f"{name}.crt", place / f"{name}.key")
        return context

    def issue(self, name: str, request: SigningRequest, *, is_self_signed: bool = False) -> str:
        ca = KeyPair(self.pki.certificate(CA).read_bytes(), self.pki.key(CA).read_bytes())
        pair = issue(make_ca("nobody", now=time.time()) if is_self_signed else ca, request, now=time.time())
        (self.files / f"{name}.crt").write_bytes(pair.certificate)
        (self.files / f"{name}.key").write_bytes(pair.key)
        return name

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        password: str = "",
        certificate: str = "",
        media: str = "application/json",
    ) -> Reply:
        """Send a request by a token, `user:password` or a certificate; as the administrator without any."""
        context = self._make_bare_context() if token or password else self.context(certificate or "admin")
        link = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=PATIENCE_S)
        headers = {"Content-Type": media}
        if token or password:
            headers["Authorization"] = f"Bearer {token}" if token else f"Basic {encode_base64(password.encode())}"
        try:
            link.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            http_response = link.getresponse()
            return Reply(http_response.status, http_response.read())
        finally:
            link.close()

    def _make_bare_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.pki.certificate(CA)))

    def make(self, path: str, body: Mapping[str, Any]) -> Any:
        reply = self.send("POST", path, body)
        assert reply.code == 201, reply.body
        return reply.json

    def wait_for(self, path: str, is_expected: Any) -> Any:
        def get_expected_object() -> Any:
            reply = self.send("GET", path)
            return reply.json if reply.code == 200 and is_expected(reply.json) else None

        return wait_until(
            get_expected_object, timeout_s=PATIENCE_S, poll_s=0.02, describe=lambda: self.send("GET", path).body
        )


@contextmanager
def hostile_cluster(home: Path, *words: str) -> Iterator[HostileCluster]:
    sampan, port, files = Sampan(home), free_port(), home / "files"
    files.mkdir()
    tokens = files / "tokens.csv"
    tokens.write_text("viewtoken,viewer,1\ncsrtoken,requester,2\n")
    passwords = files / "passwords.csv"
    passwords.write_text("same,ann,3\nsame,ben,4\n")
    where = ("--secure-port", str(port), "--bind-address", "127.0.0.1", "--token-auth-file", str(tokens))
    sampan("up", "--detach", *where, "--basic-auth-file", str(passwords), *words)
    try:
        yield HostileCluster(sampan, port, sampan.directory(), files)
    finally:
        sampan("down")


@contextmanager
def fake_kubelet(
    cluster: HostileCluster, certificate: str, location: str = "", *, host: str = "127.0.0.1"
) -> Iterator[tuple[int, list[str]]]:
    """Serve HTTPS that redirects to `location`, or answers 200 without one. Yields the port and the requests, with the
    common name of the client if it sends a certificate."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            peer = read_peer(self.connection.getpeercert() or {})
            requests.append(f"{self.path} {peer.common_name}".rstrip())
            self.send_response(302 if location else 200)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            return

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cluster.files / f"{certificate}.crt", cluster.files / f"{certificate}.key")
    context.load_verify_locations(cluster.pki.certificate(CA))
    context.verify_mode = ssl.CERT_OPTIONAL
    server = http.server.ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # type: ignore[method-assign]  # clients break off handshakes
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def node_request(name: str, *, is_client: bool = False, is_server: bool = False) -> SigningRequest:
    return SigningRequest(
        common_name=f"system:node:{name}",
        organizations=["system:nodes"],
        addresses=["127.0.0.1"] if is_server else (),
        is_client=is_client,
        is_server=is_server,
    )


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
