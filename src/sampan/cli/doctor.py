"""`sampan doctor`: check this machine and its clusters: what is missing or wrong, what it costs, how to mend it.

The checks of a cluster are pure functions of the report that `sampan status` shows.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, cluster_options, find_cluster, list_clusters
from sampan.cli.status.cluster_report import STOPPED, ClusterReport, cluster_report, size_text
from sampan.cluster.machine.machine_checks import CheckLevel, CheckResult, check_machine, errors_in
from sampan.cluster.machine.machine_state import find_busy_ports, read_state

_WIDTH = 80
_NAME, _LEVEL = 17, 9
"""The widths of the first two columns."""


@click.command("doctor")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format in which the results are printed.",
)
@cluster_options
@click.pass_context
def command(context: click.Context, output: str, data_dir: str | None, name: str) -> None:
    """Check this machine, and the clusters on it.

    Each line is a check. Below the table stand the findings, with what they cost and how to mend them. Without --name
    and --data-dir all clusters are checked. The exit code is 1 if there is an error: this machine cannot run nodes with
    containers, or a cluster does not work.
    """
    directory = find_cluster(data_dir, name)
    is_selected = any(
        context.get_parameter_source(parameter) is not click.core.ParameterSource.DEFAULT
        for parameter in ("data_dir", "name")
    )
    clusters = _check_clusters([directory] if is_selected else list(list_clusters()))
    check = partial(_check, directory.path, output, clusters, find_busy_ports())
    if rootless.is_possible():  # the machine as a cluster of this user would see it
        raise SystemExit(rootless.run_inside(partial(check, rootless.shortcomings()), has_outgoing=True))
    check()


def _check_clusters(clusters: Sequence[ClusterDir]) -> dict[str, list[CheckResult]]:
    existing = [directory for directory in clusters if directory.is_cluster or directory.is_unreadable]
    return {directory.name: check_cluster(cluster_report(directory, is_detailed=True)) for directory in existing}


def _check(
    directory: Path,
    output: str,
    clusters: Mapping[str, Sequence[CheckResult]],
    busy_ports: Sequence[int],
    shortcomings: Sequence[str] = (),
) -> None:
    """`busy_ports` are those of the machine: in the namespaces of a user they are always free."""
    state = replace(asyncio.run(read_state(directory)), rootless_shortcomings=shortcomings, busy_ports=busy_ports)
    machine = check_machine(state)
    has_errors = any(errors_in([*machine, *(result for results in clusters.values() for result in results)]))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(_summary(machine, clusters, not has_errors)), indent=2))
    else:
        print_results(machine)
        for name, results in clusters.items():
            click.echo("")
            print_results(results, title=f"CLUSTER {name}")
    if has_errors:
        raise SystemExit(1)


def _summary(
    machine: Sequence[CheckResult], clusters: Mapping[str, Sequence[CheckResult]], is_ok: bool
) -> dict[str, Any]:
    return {
        "ok": is_ok,
        "checks": [asdict(result) for result in machine],
        "clusters": {name: [asdict(result) for result in results] for name, results in clusters.items()},
    }


def print_results(results: Sequence[CheckResult], *, title: str = "CHECK") -> None:
    """Print a table of check results in 80 columns. Below it, print each result that is not ok, with its cost and its
    remedy."""
    click.echo(f"{title:<{_NAME}} {'RESULT':<{_LEVEL}} DETAIL" if len(title) <= _NAME else title)
    for result in results:
        head = f"{result.name:<{_NAME}} {result.level:<{_LEVEL}} "
        for line in _wrap_text(head, result.detail):
            click.echo(line)
    for result in results:
        if result.level is not CheckLevel.OK:
            click.echo(f"\n{result.level}: {finding_text(result)}")


def finding_text(result: CheckResult) -> str:
    lines = _wrap_text(f"{result.name}: ", result.detail, indent=2)
    lines += _wrap_text("  cost    ", result.cost) if result.cost else []
    return "\n".join([*lines, *(_wrap_text("  remedy  ", result.remedy) if result.remedy else [])])


def _wrap_text(head: str, text: str, indent: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * (len(head) if indent is None else indent),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]


_EXPIRY_WARNING_S = 30 * 86400
_LITTLE_SPACE_BYTES = 1 << 30
_LARGE_STORE_BYTES = 6 << 30
"""The size from which the check of the store warns: a SQLite store above 8 GiB accepts only deletions."""


def check_cluster(report: ClusterReport) -> list[CheckResult]:
    """Return the results of all checks that apply to the cluster of the report."""
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
    if report.state == "killed":
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
    not_ready = sorted(node for node, state in report.nodes.items() if state.startswith("NotReady"))
    if not not_ready:
        stopped = sum(state.startswith(STOPPED) for state in report.nodes.values())
        return _ok("nodes", f"{len(report.nodes) - stopped} ready" + (f", {stopped} stopped" if stopped else ""))
    return CheckResult(
        name="nodes",
        level=CheckLevel.WARNING,
        detail=f"{len(not_ready)} of {len(report.nodes)} are not ready: {', '.join(not_ready[:5])}",
        cost="their pods are evicted after five minutes",
        remedy=f"sampan kubectl describe node {not_ready[0]}",
    )


def _check_certificates(report: ClusterReport) -> CheckResult | None:
    remaining_s = report.certificate_expires_s
    if not remaining_s:
        return None
    days = int(remaining_s / 86400)
    if remaining_s > _EXPIRY_WARNING_S:
        return _ok("certificates", f"valid for {days} days")
    return CheckResult(
        name="certificates",
        level=CheckLevel.WARNING if remaining_s > 0 else CheckLevel.ERROR,
        detail=f"one expires in {days} days" if remaining_s > 0 else f"one expired {-days} days ago",
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
