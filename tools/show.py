"""What `make run` does: starts a cluster in the background, shows it at work over HTTPS, and says what to type next."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from sampan.cli.flags.nodes import find_usable_runtime
from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster, cluster_dir

SAMPAN = str(Path(sys.executable).with_name("sampan"))
USUAL_PORT = 6443
NOTES = "/api/v1/namespaces/hello/configmaps"
PODS = "/api/v1/namespaces/hello/pods"
ROOT = Path(__file__).resolve().parents[1]
EXAMPLE, SERVICE_EXAMPLE = "examples/hello.yaml", "examples/service.yaml"
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/hello/deployments",
    "Service": "/api/v1/namespaces/hello/services",
    "Pod": PODS,
}


def main() -> None:
    where = cluster_dir(None, "sampan")
    if (note := where.read_note_if_running()) is None:
        started = [SAMPAN, "up", "--detach", "--secure-port", str(_port()), *_runtime()]
        print(subprocess.run(started, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0])
        note = where.read_note_if_running()
    else:
        print(f"sampan runs already at {note.url}")
    if note is None:
        raise SystemExit(f"the cluster has ended; see {where.log}")
    api = Api(where, note)
    _show(api)
    if _show_pods(api):
        _show_service(api)
    print(
        f"\nWhat to type next:\n  export KUBECONFIG={note.kubeconfig or where.kubeconfig}\n  kubectl get pods -n hello"
    )
    print(f"  make stop                 stops it; its data stay in {where.path}")
    show_dashboard()


def _runtime() -> list[str]:
    """As it chooses itself; where there is nothing that isolates, plain processes, as the example's are harmless."""
    choice, _ = find_usable_runtime("auto")
    return [] if choice is not None or rootless.is_possible() else ["--nodes", "1", "--runtime", "process"]


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


def show_dashboard() -> None:
    """Print a link that logs in to the dashboard, or why there is none."""
    command = [SAMPAN, "dashboard", "--no-browser"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    first = (result.stdout.splitlines() or [""])[0]
    if result.returncode != 0:
        print(f"\nThere is no dashboard: {first.removeprefix('Error: ')}")
        return
    print("\nThe dashboard, logged in (once, within a minute; `.venv/bin/sampan dashboard` prints another link):")
    print(f"  {first.removeprefix('dashboard: ')}")


class Api:
    """The API as any HTTP client sees it, with the administrator's certificate."""

    def __init__(self, where: ClusterDir, note: RunningCluster) -> None:
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

    def text(self, path: str) -> str:
        self._kept.request("GET", path)
        answer = self._kept.getresponse()
        return f"{answer.status} {answer.read().decode(errors='replace').strip()}"

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
    received = ", then ".join(
        f"{event['type']} at version {event['object']['metadata']['resourceVersion']}" for event in seen
    )
    print(f"  a watch received      {received}")


def _show_pods(api: Api) -> bool:
    """Run pods of the machine's own programs and print their responses. Return whether pods have own addresses."""
    nodes = api.call("GET", "/api/v1/nodes")["items"]
    if not nodes:
        print("\nThere is no node to run pods.")
        return False
    runtime = nodes[0]["status"]["nodeInfo"]["containerRuntimeVersion"]
    print(f"\nIts node {nodes[0]['metadata']['name']} runs pods with {runtime}. Those of {EXAMPLE}:\n")
    known = {pod["metadata"]["name"] for pod in api.call("GET", PODS)["items"]}
    wanted = list(yaml.safe_load_all((ROOT / EXAMPLE).read_text()))
    _wait_for_account(api)
    began = time.perf_counter()
    for pod in wanted:
        if pod["metadata"]["name"] not in known:
            api.call("POST", PODS, pod)
    if not _are_ready(api, len(wanted)):
        raise SystemExit("the pods are not ready after a minute: kubectl describe pods -n hello tells more")
    print(f"  {len(wanted)} pods are ready   {time.perf_counter() - began:5.1f} s")
    for pod in wanted:
        name, port = pod["metadata"]["name"], pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        print(f"  GET {name}:{port}/    {_settled(partial(_answer, api, name, port))}")
    return not runtime.startswith(("process:", "hollow:"))


def _show_service(api: Api) -> None:
    """Run a deployment behind a service, and call it by name from a pod and by address from this machine."""
    print(f"\nThe deployment of {SERVICE_EXAMPLE} is behind a service:\n")
    objects = list(yaml.safe_load_all((ROOT / SERVICE_EXAMPLE).read_text()))
    known = {kind: {row["metadata"]["name"] for row in api.call("GET", path)["items"]} for kind, path in PATHS.items()}
    for obj in objects:
        if obj["metadata"]["name"] not in known[obj["kind"]]:
            api.call("POST", PATHS[obj["kind"]], obj)
    if not _wait(lambda: api.call("GET", f"{PODS}/client")["status"].get("phase") == "Succeeded"):
        raise SystemExit("the pod client did not succeed: kubectl describe pods -n hello tells more")
    print(f"  GET http://hello/ by the pod client       {api.text(f'{PODS}/client/log')}")
    address = _load_balancer(api)
    if not address:
        raise SystemExit("the service has no address: kubectl describe service hello -n hello tells more")
    print(f"  GET http://{address}/ by this machine  {_settled(partial(_get, address, 80))}")


def _load_balancer(api: Api) -> str:
    """Return the address of the service, once it has one."""
    addresses: list[str] = []

    def has_address() -> bool:
        status = api.call("GET", f"{PATHS['Service']}/hello")["status"]
        addresses.extend(row["ip"] for row in status["loadBalancer"].get("ingress", []) if "ip" in row)
        return bool(addresses)

    return addresses[0] if _wait(has_address) else ""


def _wait(condition: Callable[[], bool]) -> bool:
    """Wait up to a minute for a condition."""
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.1)
    return False


def _settled(get: Callable[[], str]) -> str:
    """Return the response as soon as it is a success. The pods of a cluster that has just been started again still have
    the status of its last run, so the first requests may reach nobody."""
    responses = [""]

    def is_success() -> bool:
        try:
            responses[0] = get()
        except OSError as error:
            responses[0] = str(error)
        return responses[0].startswith("200")

    _wait(is_success)
    return responses[0]


def _answer(api: Api, name: str, port: int) -> str:
    """Through the API server; of a machine without any network straight, as that does not go to its own loopback."""
    address = api.call("GET", f"{PODS}/{name}")["status"]["podIP"]
    if not address.startswith("127."):
        return api.text(f"{PODS}/{name}:{port}/proxy/")
    return _get(address, port)


def _get(address: str, port: int) -> str:
    link = http.client.HTTPConnection(address, port, timeout=10)
    link.request("GET", "/")
    answer = link.getresponse()
    return f"{answer.status} {answer.read().decode().strip()}"


def _wait_for_account(api: Api) -> None:
    """Before a namespace has its service account, pods are refused there."""
    for _ in range(100):
        if api.text("/api/v1/namespaces/hello/serviceaccounts/default").startswith("200"):
            return
        time.sleep(0.05)


def _are_ready(api: Api, count: int) -> bool:
    for _ in range(600):
        pods = api.call("GET", f"{PODS}?labelSelector=app%3Dhello")["items"]
        ready = [pod for pod in pods for each in pod["status"].get("conditions", []) if _is_ready(each)]
        if len(ready) >= count:
            return True
        time.sleep(0.1)
    return False


def _is_ready(condition: dict[str, str]) -> bool:
    return condition["type"] == "Ready" and condition["status"] == "True"


def _step(what: str, act: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = act()
    print(f"  {what:<20}  {(time.perf_counter() - start) * 1000:5.1f} ms, on disk")
    return result


if __name__ == "__main__":
    main()
