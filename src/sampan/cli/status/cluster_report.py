"""The report of a cluster: facts from its data directory, its process, and its API server if that answers."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sampan.cli.failures import CliError
from sampan.cli.kubectl.client.session import ServerError, Session
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.local_cluster.data_version import data_problem
from sampan.machinery.client import kubeconfig

_TIMEOUT_S = 3.0
_MAX_COUNTED_PODS = 500
"""The largest number of pods that are counted by phase. Larger clusters show only the total."""
_LITTLE_SPACE_BYTES = 1 << 30
_EXPIRY_WARNING_S = 30 * 86400


@dataclass(slots=True)
class ClusterReport:
    name: str
    state: str
    """One of running, stopped, unreadable."""
    data_dir: str
    url: str = ""
    pid: int = 0
    up_s: float = 0.0
    version: str = ""
    components: list[str] = field(default_factory=list)
    listening: list[str] = field(default_factory=list)
    kubeconfig: str = ""
    runtime: str = ""
    store: str = ""
    store_bytes: int = 0
    free_bytes: int = 0
    dns: str = ""
    pod_cidrs: list[str] = field(default_factory=list)
    service_cidrs: list[str] = field(default_factory=list)
    joined: str = ""
    """The node and the API server that it joined, if this is the directory of a node of another machine's cluster."""
    health: str = ""
    """`ok`, the failed health checks, or why the API server cannot be reached; empty if it was not asked."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The state of each node: Ready, NotReady, or either with SchedulingDisabled."""
    pods: dict[str, int] = field(default_factory=dict)
    """The number of pods by phase."""
    certificate_expires_s: float = 0.0
    """Seconds until the first certificate expires; 0 if unknown."""
    was_killed: bool = False
    """Whether the process of the cluster ended without cleaning up."""
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


def cluster_report(where: ClusterDir, *, is_detailed: bool) -> ClusterReport:
    """Return the report of a cluster. Only a detailed report sends requests to the API server."""
    report = ClusterReport(where.path.name, "stopped", str(where.path))
    if where.is_unreadable:
        report.state = "unreadable"
        return report
    try:
        note = where.read_note_if_running()
    except CliError:
        note = None
    report.joined = _describe_join(where)
    report.data_problem = data_problem(where)
    if note is None:
        report.was_killed = where.read_note() is not None
        if is_detailed:
            _add_disk(report, where)
            _add_certificates(report, where)
        return report
    _add_note(report, note)
    if is_detailed:
        _add_disk(report, where)
        _add_certificates(report, where)
        if not where.is_joined:
            _add_api(report, note)
        report.warnings = warnings(report)
    return report


def _add_note(report: ClusterReport, note: RunningCluster) -> None:
    report.state, report.name, report.pid = "running", note.name, note.pid
    report.url, report.listening = note.url or note.insecure_url, note.listening
    report.up_s, report.version = time.time() - note.started, note.version
    report.components, report.runtime, report.store = note.components, note.nodes, note.store
    report.kubeconfig, report.dns = note.kubeconfig, note.dns
    report.pod_cidrs, report.service_cidrs = note.pod_cidrs, note.service_cidrs


def _describe_join(where: ClusterDir) -> str:
    if not where.is_joined:
        return ""
    from sampan.cluster.join.record import read_record

    record = read_record(where.join_record)
    return f"{record.node} of {record.server}" if record is not None else ""


def _add_disk(report: ClusterReport, where: ClusterDir) -> None:
    try:
        report.free_bytes = shutil.disk_usage(where.path).free
        if report.store == "sqlite":
            files = (where.database, where.path / "state.db-wal")
            report.store_bytes = sum(file.stat().st_size for file in files if file.exists())
    except OSError as error:
        report.warnings.append(f"cannot read {where.path}: {error.strerror}")


def _add_certificates(report: ClusterReport, where: ClusterDir) -> None:
    from cryptography import x509

    try:
        certificates = [x509.load_pem_x509_certificate(path.read_bytes()) for path in where.pki.glob("*.crt")]
    except (OSError, ValueError):  # keys and certificates of a cluster started with sudo are readable only by root
        return
    if certificates:
        end = min(certificate.not_valid_after_utc.timestamp() for certificate in certificates)
        report.certificate_expires_s = end - time.time()


def _add_api(report: ClusterReport, note: RunningCluster) -> None:
    try:
        access = kubeconfig.load(Path(note.kubeconfig))
        session = Session(access, "", timeout_s=_TIMEOUT_S)
    except (kubeconfig.KubeconfigError, OSError) as error:
        report.health = f"unknown: {error}"
        return
    try:
        report.health = _health(session)
        nodes = session.get("/api/v1/nodes", {"limit": str(_MAX_COUNTED_PODS)})["items"]
        report.nodes = {node["metadata"]["name"]: _node_state(node) for node in nodes}
        report.pods = _pod_counts(session.get("/api/v1/pods", {"limit": str(_MAX_COUNTED_PODS)}))
    except (ServerError, CliError) as error:
        report.health = report.health or f"does not answer: {error.format_message()}"
    finally:
        session.close()


def _health(session: Session) -> str:
    try:
        session.read("/readyz?verbose")
    except ServerError as error:
        failed = [line[3:] for line in error.error.message.splitlines() if line.startswith("[-]")]
        return "; ".join(failed) or "not ready"
    return "ok"


def _node_state(node: dict[str, Any]) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    is_ready = any((entry["type"], entry["status"]) == ("Ready", "True") for entry in conditions)
    state = "Ready" if is_ready else "NotReady"
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
    if not_ready := [name for name, state in report.nodes.items() if not state.startswith("Ready")]:
        texts.append(f"not ready: {', '.join(not_ready[:5])}; `kubectl describe node {not_ready[0]}` shows why")
    if report.free_bytes and report.free_bytes < _LITTLE_SPACE_BYTES:
        texts.append(f"only {size_text(report.free_bytes)} left on the disk of {report.data_dir}")
    if 0 < report.certificate_expires_s < _EXPIRY_WARNING_S:
        days = int(report.certificate_expires_s / 86400)
        texts.append(f"a certificate expires in {days} days; a running cluster renews its own, given ones it does not")
    members = report.store.removeprefix("etcd ").split(",") if report.store.startswith("etcd ") else []
    if members and len(members) % 2 == 0:
        texts.append(f"etcd has {len(members)} members: an even number tolerates no more failures than one less")
    return texts


def size_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
