"""Counts the files that one must open to follow a flow: python tools/flow_files.py [post] [schedule] [start].

Each flow runs once in a test cluster in this process, after a pod that warms the caches up, and every file of the
flow's packages in which a function is called counts. Starting a pod needs root and crun or runc.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType
from typing import Any

import yaml

from sampan.testing.cluster import Cluster

SOURCE = Path(__file__).resolve().parents[1] / "src/sampan"
PODS = "/api/v1/namespaces/default/pods"
USER = "flow-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    budget: int
    packages: tuple[str, ...]
    """Prefixes of the paths that count."""
    leaves: tuple[str, ...] = ()
    """Prefixes that do not count: rules for single fields, plugins that have nothing to do, libraries below the
    component, and the work that a node does all the time."""
    frameworks: tuple[str, ...] = ()
    """Files below a prefix of `leaves` that count nevertheless: what calls the plugins, and their contract."""
    other_processes: tuple[str, ...] = ()
    """Files that count and run in another process."""

    def files(self, called: set[str]) -> list[str]:
        return sorted({name for name in called if self._counts(name)}.union(self.other_processes))

    def _counts(self, name: str) -> bool:
        is_leaf = name.startswith(self.leaves) and name not in self.frameworks
        return name.startswith(self.packages) and not is_leaf


FLOWS = {
    "post": Flow(
        budget=45,
        packages=(
            *("apiserver/", "storage/backend.py", "storage/watch_hub.py", "storage/sqlite/"),
            *("storage/cacher/cacher.py", "api/scheme.py", "api/codec/json.py", "machinery/apply/field_manager.py"),
        ),
        leaves=(
            "apiserver/admission/",  # single plugins: a pod passes through all of them, and most do nothing with it
            *("apiserver/registry/podspec/", "apiserver/registry/validation.py", "apiserver/authn/front_proxy.py"),
            "apiserver/authz/node.py",
            *("storage/sqlite/upkeep.py", "storage/sqlite/reader.py", "apiserver/http/tls.py"),
        ),
        frameworks=("apiserver/admission/framework/chain.py", "apiserver/admission/framework/contract.py"),
    ),
    "schedule": Flow(budget=32, packages=("scheduler/",)),
    "start": Flow(
        budget=57,
        packages=("kubelet/", "runtimes/"),
        leaves=(
            *("kubelet/devices/", "kubelet/volumes/plugins/", "kubelet/volumes/csi/", "kubelet/agent/eviction/"),
            *(f"kubelet/volumes/{name}.py" for name in ("atomic", "mounter", "ownership")),
            *("kubelet/volumes/usage.py", "kubelet/agent/image_pull_records.py", "kubelet/agent/garbage_collection.py"),
            *("kubelet/agent/machine.py", "kubelet/agent/node_status_updater.py", "kubelet/agent/node_plugins.py"),
            *("kubelet/agent/pods_api.py", "kubelet/agent/components.py"),
            *(
                "kubelet/heartbeat.py",
                "kubelet/node_status.py",
                "kubelet/plugin_registry/",
                "kubelet/logs/",
                "kubelet/server/",
            ),
            *("kubelet/stats/", "kubelet/agent/kubelet.py", "kubelet/agent/services.py"),
            *("runtimes/images/", "runtimes/kernel.py", "runtimes/safe_paths.py", "runtimes/users.py"),
            "runtimes/oci/users.py",
        ),
        other_processes=tuple(f"runtimes/monitor/{name}.py" for name in ("logs", "process", "server")),
    ),
}


class CalledFiles:
    """The files of the source in which a function was called while `recording` was active, in any thread."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._is_recording = False
        threading.setprofile(self._on_event)

    @contextmanager
    def recording(self) -> Iterator[None]:
        self._is_recording = True
        try:
            yield
        finally:
            self._is_recording = False

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if self._is_recording and event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            self.names.add(str(Path(frame.f_code.co_filename).relative_to(SOURCE)))


class ApiClient:
    """An HTTPS client that is none of Sampan's own, so that nothing of it is recorded."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._url = cluster["server"]
        self._tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        with NamedTemporaryFile("w") as pair:
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            self._tls.load_cert_chain(pair.name)

    def send(self, path: str, value: Any = None, **headers: str) -> Any:
        body = None if value is None else json.dumps(value).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"} | headers
        request = urllib.request.Request(self._url + path, data=body, headers=headers)
        with urllib.request.urlopen(request, context=self._tls) as response:
            return json.load(response)

    def wait(self, name: str, condition: Callable[[Any], bool]) -> None:
        while not condition(self.send(f"{PODS}/{name}")):
            time.sleep(0.2)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "sampan.local/host", "command": ["sleep", "1000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _files_of_post() -> set[str]:
    """The administrator impersonates a user with the role `cluster-admin`, so that the request passes through RBAC."""
    called = CalledFiles()
    with Cluster(level="api", store="sqlite") as cluster:
        api = ApiClient(Path(cluster.kubeconfig))
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": USER}, "subjects": [subject], "roleRef": role}
        api.send("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        api.send("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        headers = {"Impersonate-User": USER}
        api.send(PODS, _pod("first"), **headers)
        with called.recording():
            api.send(PODS, _pod("second"), **headers)
    return called.names


def _files_of_pod(level: str, condition: Callable[[Any], bool]) -> set[str]:
    called = CalledFiles()
    with Cluster(level=level, store="sqlite", nodes=1) as cluster:
        api = ApiClient(Path(cluster.kubeconfig))
        for name, recording in (("first", nullcontext()), ("second", called.recording())):
            with recording:
                api.send(PODS, _pod(name))
                api.wait(name, condition)
    return called.names


def _is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


RUNS: dict[str, Callable[[], set[str]]] = {
    "post": _files_of_post,
    "schedule": lambda: _files_of_pod("nodes", lambda pod: bool(pod["spec"].get("nodeName"))),
    "start": lambda: _files_of_pod("containers", _is_ready),
}


def main() -> int:
    """Print the files of each flow. Return 1 if a flow has more than its budget."""
    is_over = False
    for name in sys.argv[1:] or FLOWS:
        files = FLOWS[name].files(RUNS[name]())
        is_over |= len(files) > FLOWS[name].budget
        lines = sum(len((SOURCE / file).read_text().splitlines()) for file in files)
        print(f"{name}: {len(files)} files of at most {FLOWS[name].budget}, {lines} lines", *files, sep="\n  ")
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
