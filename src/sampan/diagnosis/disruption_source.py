"""Read what explains the disruption of a pod from the API server: events, budgets, the node, the flight recorder."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sampan.diagnosis.cluster_reader import RECORDS_PATH, ClusterReader, Object, read_items
from sampan.diagnosis.disruptions import (
    EVENT_REASONS,
    PREEMPTED,
    budget_lines,
    disruption_lines,
    is_evicted_by_taint,
    node_of_deleted,
    request_lines,
    taint_lines,
    victim_lines,
)


class DisruptionSource:
    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    async def explain(self, pod: Object, events: Sequence[Object]) -> list[str]:
        """Return what disrupted the pod, which pods were preempted for it, and why it cannot be evicted."""
        metadata = pod["metadata"]
        lines = disruption_lines(pod, events, preemptor=await self._preemptor(events))
        lines += await self._taints(lines, pod.get("spec", {}).get("nodeName", ""))
        preemptions = await read_items(self._reader, "/api/v1/events", {"fieldSelector": f"reason={PREEMPTED}"})
        lines += victim_lines(pod, preemptions)
        path = f"/apis/policy/v1/namespaces/{metadata['namespace']}/poddisruptionbudgets"
        refusals = budget_lines(pod, await read_items(self._reader, path))
        if lines or refusals:
            lines += refusals + request_lines(
                await self._records(metadata["namespace"], metadata["name"]), now=time.time()
            )
        return lines

    async def explain_deleted(self, namespace: str, name: str) -> list[str]:
        """Return why a pod of this name was removed; empty if there is no trace of one."""
        selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
        events = await read_items(self._reader, f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": selector})
        lines = disruption_lines(None, events, preemptor=await self._preemptor(events))
        lines += await self._taints(lines, node_of_deleted(events))
        return lines + request_lines(await self._records(namespace, name), now=time.time())

    async def replaced_lines(self, namespace: str, workload: str, pods: Sequence[Object]) -> list[str]:
        """Return the disruptions of pods of a workload that do not exist any more, recognized by their names."""
        present = {pod["metadata"]["name"] for pod in pods}
        events = await read_items(self._reader, f"/api/v1/namespaces/{namespace}/events")
        by_name: dict[str, list[Object]] = {}
        for event in events:
            name = event["involvedObject"].get("name", "")
            is_own = event["involvedObject"].get("kind") == "Pod" and name.startswith(f"{workload}-")
            if is_own and name not in present and event.get("reason") in EVENT_REASONS:
                by_name.setdefault(name, []).append(event)
        return [
            f"{name} was removed: {line}"
            for name, own in sorted(by_name.items())
            for line in disruption_lines(None, own, preemptor=await self._preemptor(own))
        ]

    async def _taints(self, lines: Sequence[str], node: str) -> list[str]:
        if not node or not is_evicted_by_taint(lines):
            return []
        value = await self._reader.get(f"/api/v1/nodes/{node}")
        return taint_lines(value) if value is not None else [f"node {node} does not exist any more"]

    async def _preemptor(self, events: Sequence[Object]) -> Object | None:
        related = next((event.get("related") for event in reversed(events) if event.get("reason") == PREEMPTED), None)
        if not related or not related.get("name"):
            return None
        return await self._reader.get(f"/api/v1/namespaces/{related['namespace']}/pods/{related['name']}")

    async def _records(self, namespace: str, name: str) -> list[Object]:
        return await self._reader.lines(RECORDS_PATH, {"subject": f"pods/{namespace}/{name}"})
