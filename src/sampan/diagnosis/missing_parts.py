"""What a bound pod still lacks, from its status, its events and its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]


def state_of(pod: Object) -> str:
    """Return a short description of the pod's state."""
    status, metadata = pod.get("status", {}), pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    phase = status.get("phase", "Pending")
    if phase != "Running":
        return str(phase)
    return "Running" if _condition(pod, "Ready") == "True" else "Running, not ready"


def is_placed(pod: Object) -> bool:
    return bool(pod.get("spec", {}).get("nodeName"))


def is_healthy(pod: Object) -> bool:
    return state_of(pod) in ("Running", "Succeeded")


def list_missing_parts(pod: Object, events: Sequence[Object] = (), claims: Sequence[Object] = ()) -> list[str]:
    """Return one line for each missing prerequisite; empty if none is known."""
    if pod["metadata"].get("deletionTimestamp"):
        return _termination(pod)
    reasons = [*_claims(claims), *_containers(pod, events), *_gates(pod)]
    warnings = _warnings(events) if not is_healthy(pod) else []
    return reasons + [line for line in warnings if line not in reasons]


def _termination(pod: Object) -> list[str]:
    finalizers = pod["metadata"].get("finalizers")
    since = pod["metadata"]["deletionTimestamp"]
    finalizer_text = f"; held by the finalizers {', '.join(finalizers)}" if finalizers else ""
    return [f"it is terminating: grace period until {since}{finalizer_text}"]


def _claims(claims: Sequence[Object]) -> list[str]:
    return [
        f"claim {claim['metadata']['name']}: {claim.get('status', {}).get('phase', 'Pending')}, not bound to a volume"
        for claim in claims
        if claim.get("status", {}).get("phase") != "Bound"
    ]


def _containers(pod: Object, events: Sequence[Object]) -> list[str]:
    status = pod.get("status", {})
    both = (("initContainerStatuses", "init container"), ("containerStatuses", "container"))
    texts = [
        _container(kind_text, container_status, events)
        for key, kind_text in both
        for container_status in status.get(key) or ()
    ]
    return [line for line in texts if line]


def _container(kind_text: str, container: Object, events: Sequence[Object]) -> str:
    state = container.get("state") or {}
    name = f"{kind_text} {container['name']}"
    if waiting := state.get("waiting"):
        reason = f"{name}: {waiting.get('reason', 'waiting')}"
        if message := waiting.get("message"):
            return f"{reason}: {message}"
        pull = _pull_in_progress(container["name"], events) if waiting.get("reason") in _STARTING else ""
        return f"{reason}{pull}{_restart_text(container)}"
    if (ended := state.get("terminated")) and ended.get("exitCode"):
        return (
            f"{name}: exited with code {ended['exitCode']} ({ended.get('reason', 'Error')}){_restart_text(container)}"
        )
    if "running" in state and not container.get("ready") and kind_text == "container":
        return f"{name}: running, but not ready"
    if "running" in state and kind_text == "init container" and not container.get("started"):
        return f"{name}: still running"
    return ""


_STARTING = ("ContainerCreating", "PodInitializing")
_PULL_ENDS = ("Pulled", "Failed", "Created", "Started")


def _pull_in_progress(container: str, events: Sequence[Object]) -> str:
    """Return the image that is being pulled for the container, from the last of its events; empty if none is."""
    reasons = ("Pulling", *_PULL_ENDS)
    paths = tuple(f"spec.{field}{{{container}}}" for field in ("initContainers", "containers"))
    own = (event for event in reversed(events) if event.get("involvedObject", {}).get("fieldPath") in paths)
    last = next((event for event in own if event.get("reason") in reasons), None)
    if last is None or last["reason"] != "Pulling":
        return ""
    image = str(last.get("message", "")).removeprefix("Pulling image ")
    return f", pulling image {image} since {last.get('lastTimestamp') or last.get('eventTime')}"


def _restart_text(container: Object) -> str:
    return f", restarted {container['restartCount']} times" if container.get("restartCount") else ""


def _gates(pod: Object) -> list[str]:
    condition_types = [gate["conditionType"] for gate in pod.get("spec", {}).get("readinessGates") or ()]
    return [
        f"readiness gate {name}: {_condition(pod, name) or 'not set'}"
        for name in condition_types
        if _condition(pod, name) != "True"
    ]


def _warnings(events: Sequence[Object]) -> list[str]:
    """Return the last warning event of each reason, except those of the scheduler, which are reported separately."""
    last = {event.get("reason", ""): event for event in events if event.get("type") == "Warning"}
    return [
        f"{reason}: {event.get('message', '').strip()}"
        for reason, event in last.items()
        if reason != "FailedScheduling"
    ]


def _condition(pod: Object, name: str) -> str:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == name:
            return str(condition["status"])
    return ""
