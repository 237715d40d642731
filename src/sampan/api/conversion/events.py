"""Events: core/v1, the storage version, and events.k8s.io/v1 have the same content under different field names."""

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
"""Maps the field names of core/v1 to those of events.k8s.io/v1."""
_BACK = {new: core for core, new in RENAMED.items()}


def core_to_new(event: dict[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(key, key): value for key, value in event.items()}


def new_to_core(event: dict[str, Any]) -> dict[str, Any]:
    return {_BACK.get(key, key): value for key, value in event.items()}
