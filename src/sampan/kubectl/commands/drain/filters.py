"""Decide which pods of a node a drain deletes, and why it does not delete the others. The functions are pure
(`kubectl/pkg/drain/filters.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Pod = dict[str, Any]
DaemonSetError = Callable[[str, str], tuple[str, bool] | None]
"""Returns None if the DaemonSet with this namespace and name exists. Otherwise returns the error message, and whether
the error is "not found"."""

_MIRROR = "kubernetes.io/config.mirror"


class FilterReason(Enum):
    OKAY = "Okay"
    SKIP = "Skip"
    WARNING = "Warning"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class PodFilterResult:
    is_deleted: bool
    reason: FilterReason = FilterReason.OKAY
    message: str = ""


_OKAY = PodFilterResult(True)
_SKIP = PodFilterResult(False, FilterReason.SKIP)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFilters:
    force: bool = False
    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    skip_wait_for_delete_timeout_s: int = 0


@dataclass(slots=True)
class DrainedPods:
    """The pods that a drain deletes, with warnings and errors about pods, in the order of the pod list."""

    pods: list[Pod] = field(default_factory=list)
    warnings: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)

    @property
    def warning_text(self) -> str:
        return "; ".join(f"{message}: {', '.join(pods)}" for message, pods in self.warnings.items())

    @property
    def error_texts(self) -> list[str]:
        return [f"cannot delete {message}: {', '.join(pods)}" for message, pods in self.errors.items()]


def filter_pods(
    pods: Iterable[Pod], options: PodFilters, *, now: float, daemon_set_error: DaemonSetError
) -> DrainedPods:
    """Return the pods that the drain deletes, and the warnings and errors about pods. `now` is the time in seconds
    since the epoch."""
    result = DrainedPods()
    for pod in pods:
        status = _filter_pod(pod, options, now, daemon_set_error)
        name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        if status.is_deleted:
            result.pods.append(pod)
        if status.reason is FilterReason.WARNING:
            result.warnings.setdefault(status.message, []).append(name)
        elif status.reason is FilterReason.ERROR:
            result.errors.setdefault(status.message or "unexpected error", []).append(name)
    return result


def _filter_pod(pod: Pod, options: PodFilters, now: float, daemon_set_error: DaemonSetError) -> PodFilterResult:
    """Return the result of the first filter that keeps the pod. If all filters let it be deleted, return the result of
    the last one."""
    result = _OKAY
    for result in _filter_results(pod, options, now, daemon_set_error):
        if not result.is_deleted:
            break
    return result


def _filter_results(
    pod: Pod, options: PodFilters, now: float, daemon_set_error: DaemonSetError
) -> Iterator[PodFilterResult]:
    yield _SKIP if is_deletion_overdue(pod, options.skip_wait_for_delete_timeout_s, now) else _OKAY
    yield _filter_daemon_set_pod(pod, options, daemon_set_error)
    yield _SKIP if _MIRROR in (pod["metadata"].get("annotations") or {}) else _OKAY
    yield _filter_local_storage(pod, options)
    yield _filter_unmanaged(pod, options)


def _filter_daemon_set_pod(pod: Pod, options: PodFilters, daemon_set_error: DaemonSetError) -> PodFilterResult:
    owner = controller_of(pod)
    if owner is None or (owner.get("apiVersion"), owner.get("kind")) != ("apps/v1", "DaemonSet") or is_finished(pod):
        return _OKAY
    failure = daemon_set_error(pod["metadata"].get("namespace", ""), owner["name"])
    if failure is not None:
        message, is_not_found = failure
        if is_not_found and options.force:
            return PodFilterResult(True, FilterReason.WARNING, message)
        return PodFilterResult(False, FilterReason.ERROR, message)
    if options.ignore_daemonsets:
        return PodFilterResult(False, FilterReason.WARNING, "ignoring DaemonSet-managed Pods")
    message = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
    return PodFilterResult(False, FilterReason.ERROR, message)


def _filter_local_storage(pod: Pod, options: PodFilters) -> PodFilterResult:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if is_finished(pod) or not any(volume.get("emptyDir") is not None for volume in volumes):
        return _OKAY
    if options.delete_emptydir_data:
        return PodFilterResult(True, FilterReason.WARNING, "deleting Pods with local storage")
    message = "Pods with local storage (use --delete-emptydir-data to override)"
    return PodFilterResult(False, FilterReason.ERROR, message)


def _filter_unmanaged(pod: Pod, options: PodFilters) -> PodFilterResult:
    if is_finished(pod) or controller_of(pod) is not None:
        return _OKAY
    if options.force:
        return PodFilterResult(True, FilterReason.WARNING, "deleting Pods that declare no controller")
    message = "Pods that declare no controller (use --force to override)"
    return PodFilterResult(False, FilterReason.ERROR, message)


def controller_of(pod: Pod) -> dict[str, Any] | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def is_finished(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_deletion_overdue(pod: Pod, limit_s: int, now: float) -> bool:
    """Whether the pod has been in deletion for longer than the limit; never with a limit of 0."""
    stamp = pod["metadata"].get("deletionTimestamp")
    if limit_s <= 0 or not stamp:
        return False
    from datetime import datetime

    return int(now - datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()) > limit_s
