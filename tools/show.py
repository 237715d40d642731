"""What `make run` does: starts a cluster in the background, shows it at work over HTTPS, and says what to type next."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sampan.cli.cluster_dir import ClusterDir, Running, cluster_dir
from sampan.cli.status import running

SAMPAN = str(Path(sys.executable).with_name("sampan"))
USUAL_PORT = 6443
NOTES = "/api/v1/namespaces/hello/configmaps"


def main() -> None:
    where = cluster_dir(None, "sampan")
    if (note := running(where)) is None:
        started = [SAMPAN, "up", "--detach", "--secure-port", str(_port())]
        print(subprocess.run(started, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0])
        note = running(where)
    else:
        print(f"sampan runs already at {note.url}")
    if note is None:
        raise SystemExit(f"the cluster has ended; see {where.log}")
    _show(Api(where, note))
    print(f"\nNow it is yours:\n  export KUBECONFIG={note.kubeconfig or where.kubeconfig}\n  kubectl get namespaces")
    print(f"  make stop                 ends it; its data stay in {where.path}")


def _port() -> int:
    """The usual port, or a free one where that is taken."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no free port")


class Api:
    """The API as any HTTP client sees it, with the administrator's certificate."""

    def __init__(self, where: ClusterDir, note: Running) -> None:
        self._address = note.url.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=str(where.pki / "ca.crt"))
        self._tls.load_cert_chain(where.pki / "admin.crt", where.pki / "admin.key")
        self._kept = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, context=self._tls, timeout=20)

    def call(self, method: str, path: str, body: object = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        payload = None if body is None else json.dumps(body)
        self._kept.request(method, path, payload, {"Content-Type": kind})
        answer = json.load(self._kept.getresponse())
        if answer.get("kind") == "Status" and answer.get("status") == "Failure":
            raise SystemExit(f"{method} {path}: {answer['message']}")
        return answer

    def watch(self, path: str, version: str) -> Iterator[Any]:
        connection = self._connect()
        connection.request("GET", f"{path}?watch=true&resourceVersion={version}")
        for line in connection.getresponse():
            yield json.loads(line)


def _show(api: Api) -> None:
    version = api.call("GET", "/version")["gitVersion"]
    names = [found["metadata"]["name"] for found in api.call("GET", "/api/v1/namespaces")["items"]]
    print(f"\nIt is a Kubernetes {version} with namespaces {', '.join(names)}.\n")
    if "hello" not in names:
        _step("create a namespace", lambda: api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "hello"}}))
    name = f"note-{time.time_ns() // 1_000_000}"
    note = {"metadata": {"name": name}, "data": {"text": "first"}}
    made = _step("create a config map", lambda: api.call("POST", NOTES, note))
    events = api.watch(NOTES, made["metadata"]["resourceVersion"])
    _step("change it", lambda: api.call("PATCH", f"{NOTES}/{name}", {"data": {"text": "second"}}))
    _step("delete it", lambda: api.call("DELETE", f"{NOTES}/{name}"))
    seen = [next(events) for _ in range(2)]
    told = ", then ".join(
        f"{event['type']} at version {event['object']['metadata']['resourceVersion']}" for event in seen
    )
    print(f"  a watch was told      {told}")


def _step(what: str, act: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = act()
    print(f"  {what:<20}  {(time.perf_counter() - start) * 1000:5.1f} ms, on disk")
    return result


if __name__ == "__main__":
    main()
