"""Events: core/v1, which is stored, and events.k8s.io/v1 tell the same under other names."""

from typing import Any

RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""core/v1 -> events.k8s.io/v1."""
_BACK = {new: core for core, new in RENAMED.items()}


def core_to_new(event: dict[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(key, key): value for key, value in event.items()}


def new_to_core(event: dict[str, Any]) -> dict[str, Any]:
    return {_BACK.get(key, key): value for key, value in event.items()}
