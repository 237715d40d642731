"""The report of a cluster: facts from its data directory, its process, and its API server if that answers."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.local_cluster.data_version import data_problem
from sampan.cli.session_reader import SessionReader
from sampan.diagnosis.cluster_reader import Object
from sampan.diagnosis.node_pressure import pressure_conditions, read_pressure_lines
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import ServerError
from sampan.kubelet import hollow_nodes
from sampan.machinery import errors
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import kubeconfig
from sampan.machinery.telemetry.health import COMPONENT_PREFIX

_TIMEOUT_S = 3.0
_CONNECT_TIMEOUT_S = 2.0
_ETCD_PORT = 2379
_MAX_COUNTED_PODS = 500
"""The largest number of pods that are counted by phase. Larger clusters show only the total."""
_PAGE = 500
_MAX_PRESSURE_WARNINGS = 5
STOPPED = "Stopped"
_LITTLE_SPACE_BYTES = 1 << 30
_EXPIRY_WARNING_S = 30 * 86400


@dataclass(slots=True)
class ClusterReport:
    name: str
    state: str
    """One of running, stopped, killed, unreadable. A killed cluster may have left pods running."""
    data_dir: str
    url: str = ""
    pid: int = 0
    up_s: float = 0.0
    version: str = ""
    kubernetes_version: str = ""
    components: list[str] = field(default_factory=list)
    listening: list[str] = field(default_factory=list)
    kubeconfig: str = ""
    runtime: str = ""
    store: str = ""
    store_bytes: int = 0
    unreachable_etcd_members: list[str] = field(default_factory=list)
    free_bytes: int = 0
    dns: str = ""
    pod_cidrs: list[str] = field(default_factory=list)
    service_cidrs: list[str] = field(default_factory=list)
    joined: str = ""
    """The node and the API server that it joined, if this is the directory of a node of another machine's cluster."""
    health: str = ""
    """`ok`, the failed health checks, or why the API server cannot be reached; empty if it was not asked."""
    failed_components: dict[str, str] = field(default_factory=dict)
    """Why components other than the API server are failed and being restarted."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The state of each node: Ready, NotReady, or Stopped by `sampan node stop`, each also with SchedulingDisabled."""
    pods: dict[str, int] = field(default_factory=dict)
    """The number of pods by phase."""
    certificate_expires_s: float = 0.0
    """Seconds until the first certificate expires; 0 if unknown."""
    certificates: dict[str, float] = field(default_factory=dict)
    """Seconds until the client and serving certificate of the kubelet of a joined node expire."""
    remaining_pods: dict[str, str] = field(default_factory=dict)
    """The runtimes of the nodes of a killed cluster whose pods may still run, by the name of the node."""
    data_problem: str = ""
    """Why this version of Sampan cannot use the data directory; empty if it can."""
    warnings: list[str] = field(default_factory=list)

    def value(self) -> dict[str, Any]:
        """Return the fields that are set, for JSON, with names in camel case."""
        return {_camel_case(key): value for key, value in asdict(self).items() if value}


_UNITS = {"s": "Seconds"}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(_UNITS.get(word, word.capitalize()) for word in others)


def cluster_report(directory: ClusterDir, *, is_detailed: bool) -> ClusterReport:
    """Return the report of a cluster. Only a detailed report sends requests to the API server."""
    report = ClusterReport(directory.name, "stopped", str(directory.path))
    if directory.is_unreadable:
        report.state = "unreadable"
        return report
    try:
        note = directory.read_note_if_running()
    except CliError:
        note = None
    report.joined = _describe_join(directory)
    report.data_problem = data_problem(directory)
    if note is None:
        if (last_note := directory.read_note()) is not None:
            report.state, report.name = "killed", last_note.name
            report.remaining_pods = _find_remaining_pods(directory)
        if is_detailed:
            _add_disk(report, directory)
            _add_certificates(report, directory)
            report.warnings = warnings(report)
        return report
    _add_note(report, note)
    if is_detailed:
        _add_disk(report, directory)
        _add_certificates(report, directory)
        if not directory.is_joined:
            _add_api(report, note)
        report.unreachable_etcd_members = _find_unreachable(_etcd_members(report.store))
        report.warnings = warnings(report)
    return report


def _add_note(report: ClusterReport, note: RunningCluster) -> None:
    report.state, report.name, report.pid = "running", note.name, note.pid
    report.url, report.listening = note.url or note.insecure_url, note.listening
    report.up_s, report.version = time.time() - note.started, note.version
    report.kubernetes_version = note.kubernetes_version
    report.components, report.store = note.components, note.store
    report.runtime = note.nodes
    report.kubeconfig, report.dns = note.kubeconfig, note.dns
    report.pod_cidrs, report.service_cidrs = note.pod_cidrs, note.service_cidrs
    report.warnings += [note.pods_warning] if note.pods_warning else []


def _describe_join(directory: ClusterDir) -> str:
    if not directory.is_joined:
        return ""
    from sampan.cluster.join.record import read_record

    record = read_record(directory.join_record)
    return f"{record.node} of {record.server}" if record is not None else ""


def _add_disk(report: ClusterReport, directory: ClusterDir) -> None:
    try:
        report.free_bytes = shutil.disk_usage(directory.path).free
        if report.store == "sqlite":
            files = (directory.database, directory.path / "state.db-wal")
            report.store_bytes = sum(file.stat().st_size for file in files if file.exists())
    except OSError as error:
        report.warnings.append(f"cannot read {directory.path}: {error.strerror}")


def _find_remaining_pods(directory: ClusterDir) -> dict[str, str]:
    """Return the nodes of a killed cluster whose pods have not been stopped. Only their owner can see them."""
    from sampan.cluster.nodes.abandoned_node import abandoned_runtime

    try:
        directories = sorted(path for path in (directory.path / "nodes").iterdir() if path.is_dir())
        records = {path.name: abandoned_runtime(path) for path in directories}
    except OSError:
        return {}
    return {name: record.runtime for name, record in records.items() if record is not None}


def _add_certificates(report: ClusterReport, directory: ClusterDir) -> None:
    """Add the time until the first certificate expires. On a joined node, it is one of the kubelet, not the CA."""
    try:
        if directory.is_joined:
            paths = {title: directory.pki / f"kubelet-{title}-current.pem" for title in ("client", "server")}
            report.certificates = {title: _read_expiry_s(path) for title, path in paths.items() if path.exists()}
            ends = list(report.certificates.values())
        else:
            ends = [_read_expiry_s(path) for path in directory.pki.glob("*.crt")]
    except (OSError, ValueError):  # keys and certificates of a cluster started with sudo are readable only by root
        return
    report.certificate_expires_s = min(ends, default=0.0)


def _read_expiry_s(path: Path) -> float:
    """Return the seconds until the first certificate in a file expires."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp() - time.time()


def _add_api(report: ClusterReport, note: RunningCluster) -> None:
    try:
        access = kubeconfig.load(Path(note.kubeconfig))
        session = Session(access, "", timeout_s=_TIMEOUT_S)
    except (kubeconfig.KubeconfigError, OSError) as error:
        report.health = f"unknown: {error}"
        return
    try:
        report.health, report.failed_components = _health(session)
        nodes = list(list_nodes(session))
        report.nodes = {node["metadata"]["name"]: node_state(node) for node in nodes}
        report.runtime = runtime_text(nodes, note.runtime_reason)
        report.warnings += _pressure_warnings(session, nodes)
        report.pods = _pod_counts(session.get("/api/v1/pods", {"limit": str(_MAX_COUNTED_PODS)}))
    except (ServerError, CliError) as error:
        report.health = report.health or f"does not answer: {error.format_message()}"
    finally:
        session.close()


def _health(session: Session) -> tuple[str, dict[str, str]]:
    """Return the health of the API server, and the failed components with their reasons."""
    try:
        text, is_ready = session.read("/readyz?verbose").decode(), True
    except ServerError as error:
        text, is_ready = errors.response_text(error.error), False
    failed = [line[3:] for line in text.splitlines() if line.startswith("[-]")]
    components = dict(
        line.removeprefix(COMPONENT_PREFIX).split(" failed: ", 1)
        for line in failed
        if line.startswith(COMPONENT_PREFIX) and " failed: " in line
    )
    if is_ready:
        return "ok", components
    return "; ".join(line for line in failed if not line.startswith(COMPONENT_PREFIX)) or "not ready", components


def list_nodes(session: Session) -> Iterator[dict[str, Any]]:
    query = {"limit": str(_PAGE)}
    while True:
        page = session.get("/api/v1/nodes", query)
        yield from page["items"]
        if not (token := page["metadata"].get("continue")):
            return
        query = {**query, "continue": token}


def _pressure_warnings(session: Session, nodes: Sequence[Object]) -> list[str]:
    """Return a warning for each node under pressure, up to a limit, with the thresholds of its kubelet."""
    reader = SessionReader(session)
    lines = (asyncio.run(read_pressure_lines(reader, node)) for node in nodes if pressure_conditions(node))
    return [line for node_lines in islice(lines, _MAX_PRESSURE_WARNINGS) for line in node_lines]


def runtime_text(nodes: Sequence[Object], reason: str) -> str:
    """Return the number of nodes of each runtime, and why the runtime of the real nodes was chosen."""
    counts = Counter(_annotation(node, hollow_nodes.RUNTIME) or "joined" for node in nodes)
    counted = ", ".join(f"{count} {runtime}" for runtime, count in sorted(counts.items()))
    return "; ".join(text for text in (counted, reason) if text)


def _annotation(node: Object, name: str) -> str:
    return str((node["metadata"].get("annotations") or {}).get(name, ""))


def node_state(node: Object) -> str:
    """Return the state of a node for users. A stopped node is Ready in the API until its lease has expired."""
    conditions = node.get("status", {}).get("conditions") or ()
    is_ready = any((entry["type"], entry["status"]) == ("Ready", "True") for entry in conditions)
    state = "Ready" if is_ready else "NotReady"
    if _annotation(node, hollow_nodes.POWER) == hollow_nodes.OFF:
        state = STOPPED
    return f"{state},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else state


def _pod_counts(pods: dict[str, Any]) -> dict[str, int]:
    remaining = pods["metadata"].get("remainingItemCount", 0)
    if remaining:
        return {"in all": len(pods["items"]) + remaining}
    counts = Counter(str(pod.get("status", {}).get("phase") or "Unknown") for pod in pods["items"])
    return dict(sorted(counts.items()))


def warnings(report: ClusterReport) -> list[str]:
    """Return warnings about the cluster, each with a remedy."""
    texts = list(report.warnings)
    if report.health not in ("", "ok"):
        texts.append(f"the API server is not healthy: {report.health}")
    texts += [
        f"{component} has failed and is being restarted: {reason}"
        for component, reason in report.failed_components.items()
    ]
    if report.remaining_pods:
        nodes = ", ".join(f"{name} ({runtime})" for name, runtime in report.remaining_pods.items())
        texts.append(f"the pods of {nodes} may still run: `sampan up` takes them over, `sampan down` stops them")
    if not_ready := [name for name, state in report.nodes.items() if state.startswith("NotReady")]:
        texts.append(f"not ready: {', '.join(not_ready[:5])}; `kubectl describe node {not_ready[0]}` shows why")
    if report.free_bytes and report.free_bytes < _LITTLE_SPACE_BYTES:
        texts.append(f"only {size_text(report.free_bytes)} left on the disk of {report.data_dir}")
    if 0 < report.certificate_expires_s < _EXPIRY_WARNING_S:
        days = int(report.certificate_expires_s / 86400)
        texts.append(f"a certificate expires in {days} days; a running cluster renews its own, given ones it does not")
    members = _etcd_members(report.store)
    if unreachable := report.unreachable_etcd_members:
        texts.append(f"{len(unreachable)} of {len(members)} members of etcd do not answer: {', '.join(unreachable)}")
    if members and len(members) % 2 == 0:
        texts.append(f"etcd has {len(members)} members: an even number tolerates no more failures than one less")
    return texts


def _etcd_members(store: str) -> list[str]:
    return store.removeprefix("etcd ").split(",") if store.startswith("etcd ") else []


def _find_unreachable(urls: Sequence[str]) -> list[str]:
    """Return the URLs on whose ports nothing accepts a connection, asking all at the same time."""
    if not urls:
        return []
    with ThreadPoolExecutor(max_workers=len(urls)) as pool:
        outcomes = list(pool.map(_accepts_connections, urls))
    return [url for url, is_reachable in zip(urls, outcomes, strict=True) if not is_reachable]


def _accepts_connections(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or _ETCD_PORT), timeout=_CONNECT_TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False


def size_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
