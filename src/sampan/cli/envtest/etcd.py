"""The `etcd` of `sampan envtest`. It stores nothing: it reports itself healthy, and names the file in its data
directory in which the API server keeps its objects.

It must start in an instant, so it uses nothing but small modules of the standard library, and runs as a file.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

STORE_PATH = "/sampan/store"
"""The URL path that serves two lines: the path of the SQLite file, and whether its writes are synced to disk."""
SYNCED, UNSYNCED = "synced", "unsynced"
HELP = """\
Usage: etcd [FLAGS]

The etcd of `sampan envtest`: it serves health checks, and keeps the objects of
one kube-apiserver of `sampan envtest` in its data directory. Other flags of
etcd are accepted, and have no effect.

  --data-dir DIR             Directory for the objects.
  --listen-client-urls URL,…
                             HTTP addresses to listen on.
  --unsafe-no-fsync          Do not wait until writes are on disk.
"""
_DATABASE = "state.db"
_CONNECTION_TIMEOUT_S = 5
_VERSION = b'{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}'
_HEALTHY = b'{"health":"true","reason":""}'


def main(words: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(0))
    flags = parse_flags(words)
    directory = os.path.abspath(flags.get("data-dir", "default.etcd"))
    os.makedirs(directory, mode=0o700, exist_ok=True)
    sync = UNSYNCED if flags.get("unsafe-no-fsync", "false") == "true" else SYNCED
    pages = {
        "/health": _HEALTHY,
        "/livez": b"ok",
        "/readyz": b"ok",
        "/version": _VERSION,
        STORE_PATH: f"{os.path.join(directory, _DATABASE)}\n{sync}\n".encode(),
    }
    sockets = [listen(url) for url in flags.get("listen-client-urls", "http://localhost:2379").split(",")]
    serve(sockets, pages)


def parse_flags(words: list[str]) -> dict[str, str]:
    """Return the flags by name, as Go reads them: `--name=value`, `--name value`, or `--name` for true."""
    flags = {}
    remainder = list(words)
    while remainder:
        word = remainder.pop(0)
        if not word.startswith("-"):
            sys.exit(f"etcd: {word!r} is not a flag")
        name, equals, value = word.lstrip("-").partition("=")
        takes_next = not equals and remainder and not remainder[0].startswith("-")
        flags[name] = value if equals else remainder.pop(0) if takes_next else "true"
    return flags


def listen(url: str) -> socket.socket:
    scheme, _, address = url.strip().partition("://")
    host, _, port = address.rstrip("/").rpartition(":")
    if scheme != "http" or not port.isdigit():
        sys.exit(f"etcd: --listen-client-urls: the etcd of `sampan envtest` needs http://HOST:PORT, not {url!r}")
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=_family(host))
    except OSError as error:
        sys.exit(f"etcd: --listen-client-urls: cannot listen on {url}: {error.strerror}")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if host.startswith("[") else socket.AF_INET


def serve(sockets: list[socket.socket], pages: dict[str, bytes]) -> None:
    """Serve pages, given as bodies by URL path, until the process is signalled to stop."""
    import select

    while True:
        for ready in select.select(sockets, [], [])[0]:
            connection, _ = ready.accept()
            with connection:
                try:
                    _serve_connection(connection, pages)
                except OSError:
                    continue  # the client has gone, or sent nothing for too long


def _serve_connection(connection: socket.socket, pages: dict[str, bytes]) -> None:
    connection.settimeout(_CONNECTION_TIMEOUT_S)
    request = b""
    while b"\r\n\r\n" not in request:
        block = connection.recv(65536)
        if not block or len(request) > 65536:
            return
        request += block
    path = request.split(b" ", 2)[1].decode("latin-1").partition("?")[0]
    status, body = ("200 OK", pages[path]) if path in pages else ("404 Not Found", b"404 page not found\n")
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


if __name__ == "__main__":
    main(sys.argv[1:])
