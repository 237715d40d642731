"""The status of a rollout as text: pure functions of a workload (`polymorphichelpers/rollout_status.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sampan.cli.failures import CliError

RolloutStatus = tuple[str, bool]
"""A line for the user, and whether the rollout is complete."""
StatusOf = Callable[[dict[str, Any], int], RolloutStatus]

_REVISION = "deployment.kubernetes.io/revision"


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
