"""The steps of a rolling update of replication controllers: pure functions of replica counts.

The old controller is scaled down and the new one up, one step after the other, so that the number of pods never exceeds
`desired + max_surge` and at least `min_available` stay available.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.machinery.cli_errors import CliError

UPDATE_SOURCE = "kubectl.kubernetes.io/update-source-id"
"""On the new controller: NAME:UID of the controller that it replaces."""
DESIRED_REPLICAS = "kubectl.kubernetes.io/desired-replicas"
"""On the new controller: its number of replicas when the update is complete."""
ORIGINAL_REPLICAS = "kubectl.kubernetes.io/original-replicas"
"""On the old controller: its number of replicas before the update, for a rollback."""
NEXT_CONTROLLER = "kubectl.kubernetes.io/next-controller-id"
"""On the old controller: the name of the new one, for a continuation and a rollback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLimits:
    desired: int
    max_surge: int = 1
    max_unavailable: int = 0

    @property
    def min_available(self) -> int:
        return max(0, self.desired - self.max_unavailable)


def is_complete(old: int, new: int, limits: UpdateLimits) -> bool:
    return new == limits.desired and old == 0


def compute_scale_up(old: int, new: int, limits: UpdateLimits) -> int:
    """Return the next number of replicas of the new controller: as many as the surge allows."""
    if new == limits.desired:
        return new
    increment = limits.desired - new if old == 0 else limits.desired + limits.max_surge - (old + new)
    return min(new + increment, limits.desired) if increment > 0 else new


def compute_scale_down(old: int, new: int, new_available: int, limits: UpdateLimits) -> int:
    """Return the next number of replicas of the old controller: as few as availability allows."""
    if old == 0 or (new == limits.desired and new_available == limits.desired):
        return 0
    unavailable = new - new_available
    decrement = old + new - limits.min_available - unavailable
    return max(0, old - decrement) if decrement > 0 else old


def desired_replicas(controller: dict[str, Any]) -> int:
    """Return the number of replicas that the annotation of the new controller requests."""
    text = annotations_of(controller).get(DESIRED_REPLICAS, "")
    if not (isinstance(text, str) and text.isdecimal()):
        raise CliError(f"Unable to parse annotation for {controller['metadata']['name']}: {DESIRED_REPLICAS}={text}")
    return int(text)


def target_controller(controller: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the new controller as it is created: without replicas, with the annotations of an update from `source`
    (NAME:UID)."""
    replicas = controller["spec"].get("replicas", 1)
    if replicas <= 0:
        name = controller["metadata"]["name"]
        raise CliError(f"Invalid controller spec for {name}; required: > 0 replicas, actual: {replicas}")
    annotations = {**annotations_of(controller), DESIRED_REPLICAS: str(replicas), UPDATE_SOURCE: source}
    return {
        **controller,
        "metadata": {**controller["metadata"], "annotations": annotations},
        "spec": {**controller["spec"], "replicas": 0},
    }


def check_continuation(existing: dict[str, Any], source: str) -> None:
    """Raise CliError if an existing controller is not the target of an update from `source`."""
    annotations = annotations_of(existing)
    if annotations.get(UPDATE_SOURCE) != source or DESIRED_REPLICAS not in annotations:
        from sampan.api.go_compat import gotext

        name = existing["metadata"]["name"]
        raise CliError(
            f"Missing/unexpected annotations for controller {name}, expected {source} : {gotext.value(annotations)}"
        )


def rollback_annotations(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    """Return the annotations that make the old controller the target of an update from the new one."""
    annotations = annotations_of(old)
    if ORIGINAL_REPLICAS not in annotations:
        raise CliError(f'couldn\'t find original replica count of "{old["metadata"]["name"]}"')
    source = f"{new['metadata']['name']}:{new['metadata'].get('uid', '')}"
    return {**annotations, UPDATE_SOURCE: source, DESIRED_REPLICAS: annotations[ORIGINAL_REPLICAS]}


def check_selectors(old: dict[str, Any], new: dict[str, Any], source: str) -> None:
    """Raise CliError unless a label in both selectors has different values: the controllers must not share pods."""
    old_name, new_name = old["metadata"]["name"], new["metadata"]["name"]
    if old_name == new_name:
        raise CliError(f"{source} cannot have the same name as the existing ReplicationController {old_name}")
    old_selector, new_selector = old["spec"].get("selector") or {}, new["spec"].get("selector") or {}
    if not any(key in new_selector and new_selector[key] != value for key, value in old_selector.items()):
        raise CliError(f"{source} must specify a matching key with non-equal value in Selector for {old_name}")


def annotations_of(controller: dict[str, Any]) -> dict[str, Any]:
    return controller["metadata"].get("annotations") or {}
