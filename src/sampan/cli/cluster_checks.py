"""What is wrong with a cluster, for `sampan doctor`: pure functions of the report that `sampan status` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sampan.cli.status.cluster_report import ClusterReport, size_text
from sampan.cluster.machine.machine_checks import CheckLevel, CheckResult

_EXPIRES_SOON_S = 30 * 86400
_LITTLE_SPACE_BYTES = 1 << 30
_LARGE_STORE_BYTES = 6 << 30
"""Above 8 GiB a SQLite store accepts only deletions."""


def check_cluster(report: ClusterReport) -> list[CheckResult]:
    """Return the results of all checks that apply to the cluster."""
    results = [check(report) for check in _CHECKS]
    return [result for result in results if result is not None]


def _ok(name: str, detail: str) -> CheckResult:
    return CheckResult(name=name, level=CheckLevel.OK, detail=detail)


def _check_process(report: ClusterReport) -> CheckResult:
    name = "process"
    if report.state == "running":
        return _ok(name, f"running as process {report.pid}")
    if report.state == "unreadable":
        return CheckResult(
            name=name,
            level=CheckLevel.WARNING,
            detail=f"{report.data_dir} cannot be read",
            cost="nothing is known about it",
            remedy="sudo sampan doctor",
        )
    if report.was_killed:
        return CheckResult(
            name=name,
            level=CheckLevel.WARNING,
            detail="its process was killed or the machine was switched off",
            cost="pods, mounts and network rules of its nodes may be left",
            remedy=f"sampan down --name {report.name} removes them; sampan up --name {report.name} starts it again",
        )
    return _ok(name, "stopped")


def _check_version(report: ClusterReport) -> CheckResult | None:
    if not report.data_problem:
        return None
    return CheckResult(
        name="data format",
        level=CheckLevel.ERROR,
        detail=report.data_problem,
        cost="the cluster cannot be started with this version",
        remedy="install the version that wrote the data; `sampan upgrade` shows both",
    )


def _check_health(report: ClusterReport) -> CheckResult | None:
    if not report.health:
        return None
    if report.health == "ok":
        return _ok("api server", f"ready at {report.url}")
    return CheckResult(
        name="api server",
        level=CheckLevel.ERROR,
        detail=report.health,
        cost="requests fail, or the state of the cluster does not change",
        remedy=f"sampan logs --name {report.name} --warnings; then sampan down and sampan up",
    )


def _check_nodes(report: ClusterReport) -> CheckResult | None:
    if not report.nodes:
        return None
    not_ready = sorted(node for node, state in report.nodes.items() if not state.startswith("Ready"))
    if not not_ready:
        return _ok("nodes", f"{len(report.nodes)} ready")
    return CheckResult(
        name="nodes",
        level=CheckLevel.WARNING,
        detail=f"{len(not_ready)} of {len(report.nodes)} are not ready: {', '.join(not_ready[:5])}",
        cost="their pods are evicted after five minutes",
        remedy=f"sampan kubectl describe node {not_ready[0]}",
    )


def _check_certificates(report: ClusterReport) -> CheckResult | None:
    left = report.certificate_expires_s
    if not left:
        return None
    days = int(left / 86400)
    if left > _EXPIRES_SOON_S:
        return _ok("certificates", f"valid for {days} days")
    return CheckResult(
        name="certificates",
        level=CheckLevel.WARNING if left > 0 else CheckLevel.ERROR,
        detail=f"one expires in {days} days" if left > 0 else f"one expired {-days} days ago",
        cost="clients and kubelets are rejected when it has expired",
        remedy=f"sampan down --name {report.name} && sampan up --name {report.name} renews those of the cluster",
    )


def _check_store(report: ClusterReport) -> CheckResult | None:
    if not report.store:
        return None
    members = report.store.removeprefix("etcd ").split(",") if report.store.startswith("etcd ") else []
    if members and len(members) % 2 == 0:
        return CheckResult(
            name="store",
            level=CheckLevel.WARNING,
            detail=f"etcd has {len(members)} members",
            cost="an even number tolerates no more failures than one member less",
            remedy="add or remove a member: etcdctl member add|remove",
        )
    if report.store_bytes > _LARGE_STORE_BYTES:
        return CheckResult(
            name="store",
            level=CheckLevel.WARNING,
            detail=f"the SQLite store has {size_text(report.store_bytes)}",
            cost="above 8 GiB only deletions are accepted",
            remedy="delete objects, or move to etcd: sampan store copy",
        )
    return _ok("store", f"{report.store}, {size_text(report.store_bytes)}" if report.store_bytes else report.store)


def _check_disk(report: ClusterReport) -> CheckResult | None:
    if not report.free_bytes:
        return None
    detail = f"{size_text(report.free_bytes)} free in {report.data_dir}"
    if report.free_bytes >= _LITTLE_SPACE_BYTES:
        return _ok("disk", detail)
    return CheckResult(
        name="disk",
        level=CheckLevel.WARNING,
        detail=detail,
        cost="writes fail when it is full; pods are evicted before",
        remedy="sampan image rm, old files in volumes/, or a larger disk",
    )


_CHECKS: Sequence[Callable[[ClusterReport], CheckResult | None]] = (
    _check_process,
    _check_version,
    _check_health,
    _check_nodes,
    _check_certificates,
    _check_store,
    _check_disk,
)
