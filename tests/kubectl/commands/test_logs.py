"""Logs are followed across lost connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sampan.kubectl.client.session import Session
from sampan.kubectl.commands import logs
from sampan.kubectl.commands.logs import LogsOptions, LogSource, LostLogError
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.pod_selection import default_container
from sampan.machinery.client.access import Access

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def log_server(*bodies: bytes) -> Iterator[tuple[str, list[str]]]:
    """Serve one body for each connection, then close it; yield the address and the request lines."""
    listener, requests = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        for body in bodies:
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(65536).decode().splitlines()[0])
                connection.sendall(_HEAD + body)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    thread.join(5)
    listener.close()


def test_follow_reconnects_after_a_lost_connection(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_RETRY_INTERVAL_S", 0.0)
    options = LogsOptions(pod_running_timeout=5.0, prefix=True, follow=True)
    with log_server(b"4\r\none\n\r\n", b"4\r\ntwo\n\r\n0\r\n\r\n") as (address, requests):
        session = Session(Access(server=address), "default")
        query = {"follow": "true", "tailLines": "10"}
        logs._consume(session, LogSource("/log", "web", "main"), query, options, threading.Lock())
        session.close()
    assert capfdbinary.readouterr().out == b"[pod/web/main] one\n[pod/web/main] two\n"
    assert "tailLines=10" in requests[0]
    assert "tailLines" not in requests[1]
    assert "sinceTime=" in requests[1]


def test_lost_connection_without_follow_is_an_error() -> None:
    options = LogsOptions(pod_running_timeout=5.0)
    with log_server(b"4\r\none\n\r\n") as (address, _):
        session = Session(Access(server=address), "default")
        with pytest.raises(LostLogError, match="lost connection"):
            logs._consume(session, LogSource("/log", "web", "main"), {}, options, threading.Lock())
        session.close()


def test_an_annotation_with_terminal_escapes_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    pod = {
        "metadata": {"name": "web", "annotations": {"kubectl.kubernetes.io/default-container": "x\x1b[2Jy\n"}},
        "spec": {"containers": [{"name": "main"}]},
    }
    assert logs._container(pod, "", is_quiet=False) == "main"
    assert capsys.readouterr().err == 'Default container name "x\\x1b[2Jy\\n" not found in pod web\n'
    with pytest.raises(KubectlError, match=r'container "x\\x1b\[2Jy\\n" is not valid for pod web'):
        default_container(pod)
