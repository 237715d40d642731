"""The explanation of a pod's state: what the pod lacks, and what disrupted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sampan.diagnosis.cluster_reader import ClusterReader, Object, read_items
from sampan.diagnosis.disruptions import DisruptionSource
from sampan.diagnosis.missing_parts import list_missing_parts, state_of
from sampan.diagnosis.node_pressure import read_pending_lines

_TERMINAL_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExplanation:
    pod: str
    """The pod as NAMESPACE/NAME."""
    state: str
    lacks: list[str]
    disruption: list[str]

    def value(self, scheduling: Any) -> dict[str, Any]:
        """Return the explanation as a JSON value, together with the explanation of the scheduler."""
        value = {"pod": self.pod, "state": self.state, "lacks": self.lacks, "disruption": self.disruption}
        return {**value, "scheduling": scheduling}


def is_schedulable(pod: Object) -> bool:
    """Whether the scheduler can explain the pod: it has neither ended nor been deleted."""
    return pod.get("status", {}).get("phase") not in _TERMINAL_PHASES and not pod["metadata"].get("deletionTimestamp")


async def explain_pod(reader: ClusterReader, pod: Object) -> PodExplanation:
    events = await read_events(reader, pod)
    has_no_node = is_schedulable(pod) and not pod.get("spec", {}).get("nodeName")
    pressure = await read_pending_lines(reader) if has_no_node else []
    return PodExplanation(
        pod=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
        state=state_of(pod),
        lacks=list_missing_parts(pod, events, await _claims(reader, pod)) + pressure,
        disruption=await DisruptionSource(reader).explain(pod, events),
    )


async def read_events(reader: ClusterReader, obj: Object) -> list[Object]:
    """Return the events about an object, the latest last."""
    metadata = obj["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/events"
    events = await read_items(reader, path, {"fieldSelector": f"involvedObject.uid={metadata['uid']}"})
    return sorted(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))


async def _claims(reader: ClusterReader, pod: Object) -> list[Object]:
    volumes = pod.get("spec", {}).get("volumes") or ()
    names = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes]
    return [await _claim(reader, pod["metadata"]["namespace"], name) for name in names if name]


async def _claim(reader: ClusterReader, namespace: str, name: str) -> Mapping[str, Any]:
    claim = await reader.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
    return claim or {"metadata": {"name": name}, "status": {"phase": "not there"}}
