"""Conformance tests of sig-cli for `kubectl proxy`. The first paragraph of a docstring is the official test name."""

import http.client
import json
import re
import socket
from pathlib import Path

from tests.e2e.kubectl.command import Kubectl


def test_proxy_on_a_random_port(kubectl: Kubectl) -> None:
    """[sig-cli] Kubectl client Proxy server should support proxy with --port 0 [Conformance]"""
    with kubectl.running("proxy", "-p", "0", "--disable-filter") as process:
        assert process.stdout is not None
        output = process.stdout.readline()
        while (match := re.search(r"Starting to serve on 127\.0\.0\.1:(\d+)", output)) is None:
            output = process.stdout.readline()
            assert output
        connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=60)
        connection.request("GET", "/api/")
        assert json.loads(connection.getresponse().read())["kind"] == "APIVersions"
        connection.close()


def test_proxy_on_a_unix_socket(kubectl: Kubectl, tmp_path: Path) -> None:
    """[sig-cli] Kubectl client Proxy server should support --unix-socket=/path [Conformance]"""
    path = tmp_path / "socket"
    with kubectl.running("proxy", f"--unix-socket={path}") as process:
        assert process.stdout is not None
        assert f"Starting to serve on {path}" in process.stdout.readline()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(path))
            connection.sendall(b"GET /api/ HTTP/1.0\r\nHost: localhost\r\n\r\n")
            received = b""
            while data := connection.recv(4096):
                received += data
        assert json.loads(received.partition(b"\r\n\r\n")[2])["versions"] == ["v1"]
