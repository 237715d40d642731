"""`kubectl rollout status`: show the status of a rollout until it is complete.

The texts are pure functions of a workload (`polymorphichelpers/rollout_status.go`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import bool_flag, duration_flag, int_flag
from sampan.kubectl.commands.rollout.rollout_resources import RolloutOptions, report_no_resources, rollout_builder
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError

RolloutStatus = tuple[str, bool]
"""A line for the user, and whether the rollout is complete."""
StatusOf = Callable[[dict[str, Any], int], RolloutStatus]
_REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions(RolloutOptions):
    watch: bool = bool_flag("-w", "--watch", default=True, help="Wait until the rollout is complete. True by default.")
    revision: int = int_flag("--revision", default=0, metavar="N", help="Revision that must be current; 0 for any.")
    timeout_s: float = duration_flag(
        "--timeout", default_s=0.0, metavar="TIME", help="How long to wait; 0 without limit."
    )


@KubectlCommand.define("status", StatusOptions)
def command(factory: Factory, options: StatusOptions) -> None:
    """Show the status of a rollout until it is complete."""
    builder = rollout_builder(factory, options)
    if options.revision < 0:
        raise KubectlError(f"revision must be a positive integer: {options.revision}")
    errors, count = ErrorAggregate(), 0
    for info in builder.infos(errors):
        count += 1
        with errors.collect():
            status_of = status_function(info.kind.group, info.kind.kind)
            session = factory.session.open_another()
            try:
                _follow(session, info, status_of, options)
            finally:
                session.close()
    errors.raise_any()
    if not count:
        report_no_resources(factory, errors)


def _follow(session: Session, info: ResourceInfo, status_of: StatusOf, options: StatusOptions) -> None:
    """Print the status after each change of the object, until the rollout is complete."""
    timeout_s = options.timeout_s
    deadline = time.monotonic() + timeout_s if timeout_s else None
    query = {"fieldSelector": f"metadata.name={info.name}"}
    while True:
        response = session.get(info.collection, query)
        items = response.get("items") or ()
        if not items:
            raise KubectlError("object has been deleted")
        if _print_status(items[0], status_of, options):
            return
        version = response["metadata"].get("resourceVersion", "")
        if _watch(session, info, {**query, "resourceVersion": version}, status_of, options, deadline):
            return


def _watch(
    session: Session,
    info: ResourceInfo,
    query: dict[str, str],
    status_of: StatusOf,
    options: StatusOptions,
    deadline: float | None,
) -> bool:
    """Watch the object and print its status. Return True when the rollout is complete, and False if the watch ends
    before."""
    query |= {"watch": "true"}
    if deadline is not None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise KubectlError("timed out waiting for the condition")
        query |= {"timeoutSeconds": str(int(remaining) + 1)}
    try:
        for event in session.lines(info.collection, query):
            if event["type"] == "DELETED":
                raise KubectlError("object has been deleted")
            if event["type"] in ("ADDED", "MODIFIED") and _print_status(event["object"], status_of, options):
                return True
            if deadline is not None and time.monotonic() > deadline:
                raise KubectlError("timed out waiting for the condition")
    except ServerError as error:
        if error.error.code != 410:
            raise
    finally:
        session.close()
    return False


def _print_status(workload: dict[str, Any], status_of: StatusOf, options: StatusOptions) -> bool:
    """Print the status of the rollout. Return whether the command is done with it."""
    text, is_done = status_of(workload, options.revision)
    click.echo(text)
    return is_done or not options.watch


def status_function(group: str, kind: str) -> StatusOf:
    """Return the function for a kind. Raise CliError for kinds without rollouts."""
    functions = {"Deployment": deployment_status, "DaemonSet": daemon_set_status, "StatefulSet": stateful_set_status}
    if group not in ("apps", "extensions") or kind not in functions:
        qualified = f"{kind}.{group}" if group else kind
        raise CliError(f"no status viewer has been implemented for {qualified}")
    return functions[kind]


def deployment_status(deployment: dict[str, Any], revision: int = 0) -> RolloutStatus:
    """Return the status of a Deployment. `revision` is the revision that it must have; 0 for any."""
    metadata, spec, status = deployment["metadata"], deployment.get("spec") or {}, deployment.get("status") or {}
    name = metadata["name"]
    if revision > 0:
        current = int((metadata.get("annotations") or {}).get(_REVISION) or 0)
        if revision != current:
            raise CliError(f"desired revision ({revision}) is different from the running revision ({current})")
    if metadata.get("generation", 0) > status.get("observedGeneration", 0):
        return "Waiting for deployment spec update to be observed...", False
    if any(
        condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded"
        for condition in status.get("conditions") or ()
    ):
        raise CliError(f'deployment "{name}" exceeded its progress deadline')
    desired, updated = spec.get("replicas"), status.get("updatedReplicas", 0)
    waiting = f'Waiting for deployment "{name}" rollout to finish:'
    if desired is not None and updated < desired:
        return f"{waiting} {updated} out of {desired} new replicas have been updated...", False
    if status.get("replicas", 0) > updated:
        return f"{waiting} {status['replicas'] - updated} old replicas are pending termination...", False
    if status.get("availableReplicas", 0) < updated:
        available = status.get("availableReplicas", 0)
        return f"{waiting} {available} of {updated} updated replicas are available...", False
    return f'deployment "{name}" successfully rolled out', True


def daemon_set_status(daemon_set: dict[str, Any], revision: int = 0) -> RolloutStatus:
    metadata, status = daemon_set["metadata"], daemon_set.get("status") or {}
    _check_rolling_update(daemon_set)
    if metadata.get("generation", 0) > status.get("observedGeneration", 0):
        return "Waiting for daemon set spec update to be observed...", False
    desired = status.get("desiredNumberScheduled", 0)
    updated, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    waiting = f'Waiting for daemon set "{metadata["name"]}" rollout to finish:'
    if updated < desired:
        return f"{waiting} {updated} out of {desired} new pods have been updated...", False
    if available < desired:
        return f"{waiting} {available} of {desired} updated pods are available...", False
    return f'daemon set "{metadata["name"]}" successfully rolled out', True


def stateful_set_status(stateful_set: dict[str, Any], revision: int = 0) -> RolloutStatus:
    metadata, spec, status = stateful_set["metadata"], stateful_set.get("spec") or {}, stateful_set.get("status") or {}
    _check_rolling_update(stateful_set)
    observed = status.get("observedGeneration", 0)
    if observed == 0 or metadata.get("generation", 0) > observed:
        return "Waiting for statefulset spec update to be observed...", False
    desired, updated = spec.get("replicas"), status.get("updatedReplicas", 0)
    ready = status.get("readyReplicas", 0)
    if desired is not None and ready < desired:
        return f"Waiting for {desired - ready} pods to be ready...", False
    rolling_update = spec["updateStrategy"].get("rollingUpdate")
    if rolling_update is not None:
        partition = rolling_update.get("partition")
        if desired is not None and partition is not None and updated < desired - partition:
            total = desired - partition
            waiting = "Waiting for partitioned roll out to finish:"
            return f"{waiting} {updated} out of {total} new pods have been updated...", False
        return f"partitioned roll out complete: {updated} new pods have been updated...", True
    if status.get("updateRevision", "") != status.get("currentRevision", ""):
        target = status.get("updateRevision", "")
        return f"waiting for statefulset rolling update to complete {updated} pods at revision {target}...", False
    pods, target = status.get("currentReplicas", 0), status.get("currentRevision", "")
    return f"statefulset rolling update complete {pods} pods at revision {target}...", True


def _check_rolling_update(workload: dict[str, Any]) -> None:
    strategy = (workload.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        raise CliError("rollout status is only available for RollingUpdate strategy type")
