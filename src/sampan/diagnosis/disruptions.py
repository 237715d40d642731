"""Why a pod was disrupted or cannot be: preemption, eviction from a node, eviction requests and disruption budgets.

The functions are pure; `DisruptionSource` reads their input from the API server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sampan.api.selectors.label_selector import selector_of
from sampan.api.values.ages import format_age
from sampan.diagnosis.cluster_reader import RECORDS_PATH, ClusterReader, Object, read_items
from sampan.diagnosis.node_pressure import read_pressure_lines

PREEMPTED = "Preempted"
EVENT_REASONS = (PREEMPTED, "Evicted", "Preempting", "TaintManagerEviction", "DeviceTaintManagerEviction")
"""The reasons of events about a pod that is removed from its node."""
_TERMINAL_PHASES = ("Succeeded", "Failed")
_CONDITION_TEXTS = {
    "PreemptionByScheduler": "preempted by the scheduler to make room for a pod of higher priority",
    "DeletionByTaintManager": "evicted by a NoExecute taint of its node that it does not tolerate",
    "DeletionByDeviceTaintManager": "evicted by a NoExecute taint of a device that it does not tolerate",
    "EvictionByEvictionAPI": "evicted by a request to the eviction API, such as `kubectl drain`",
    "TerminationByKubelet": "terminated by the kubelet of its node",
    "DeletionByPodGC": "deleted by the pod garbage collector",
}

_EVENT_TEXTS = {
    "TaintManagerEviction": _CONDITION_TEXTS["DeletionByTaintManager"],
    "DeviceTaintManagerEviction": _CONDITION_TEXTS["DeletionByDeviceTaintManager"],
}


def disruption_lines(pod: Object | None, events: Sequence[Object], *, preemptor: Object | None = None) -> list[str]:
    """Return why the pod was removed from its node, or is about to be removed; empty if neither applies. `pod` is None
    if it no longer exists. `preemptor` is the pod that the scheduler made room for, if it exists."""
    preemption = next((event for event in reversed(events) if event.get("reason") == PREEMPTED), None)
    if preemption is not None:
        return [_preemption(pod, preemption, preemptor)]
    if pod is not None and (text := _condition_text(pod)):
        return [text]
    last = {event["reason"]: event for event in events if event.get("reason") in EVENT_REASONS}
    return [
        _EVENT_TEXTS.get(reason) or f"{reason}: {event.get('message', '').strip()}"
        for reason, event in last.items()
        if not event.get("message", "").startswith("Cancelling deletion")
    ]


def node_of_deleted(events: Sequence[Object]) -> str:
    """Return the node that a pod was bound to, from the event of its binding; empty if it is unknown."""
    bindings = [event for event in events if event.get("reason") == "Scheduled"]
    return str(bindings[-1].get("message", "")).rpartition(" to ")[2] if bindings else ""


def _preemption(pod: Object | None, event: Object, preemptor: Object | None) -> str:
    related = event.get("related") or {}
    name = f"pod {related['namespace']}/{related['name']}" if related.get("name") else "a pod of higher priority"
    place = event.get("message", "").rpartition(" on node ")[2].split()
    text = f"preempted by {name}" + (f" to make room on {place[0].rstrip('.')}" if place else "")
    if preemptor is None:
        return text
    own = f", this pod {_priority(pod)}" if pod is not None else ""
    return f"{text}: it has priority {_priority(preemptor)}{own}"


def _condition_text(pod: Object) -> str:
    status = pod.get("status", {})
    condition = _true_condition(pod, "DisruptionTarget")
    if condition is None:
        return f"evicted by the kubelet: {status.get('message', '')}" if status.get("reason") == "Evicted" else ""
    text = _CONDITION_TEXTS.get(condition.get("reason", ""), f"disrupted ({condition.get('reason', 'unknown')})")
    detail = status.get("message") or condition.get("message") or ""
    return f"{text}: {detail}" if detail and detail.partition(": ")[2] not in text else text


def taint_lines(node: Object) -> list[str]:
    """Return the NoExecute taints of a node, which evict pods that do not tolerate them."""
    taints = [taint for taint in node.get("spec", {}).get("taints") or () if taint.get("effect") == "NoExecute"]
    texts = [f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"] for taint in taints]
    return [f"taints of {node['metadata']['name']} with effect NoExecute: {', '.join(texts)}"] if texts else []


def is_evicted_by_taint(lines: Sequence[str]) -> bool:
    return any(line.startswith(_CONDITION_TEXTS["DeletionByTaintManager"]) for line in lines)


def victim_lines(pod: Object, preemptions: Sequence[Object]) -> list[str]:
    """Return the pods that were preempted for this one, from all events with the reason Preempted."""
    uid = pod["metadata"]["uid"]
    victims = [
        f"{event['involvedObject'].get('namespace', '')}/{event['involvedObject'].get('name', '')}"
        for event in preemptions
        if (event.get("related") or {}).get("uid") == uid
    ]
    if not victims:
        return []
    node = pod.get("status", {}).get("nominatedNodeName") or pod.get("spec", {}).get("nodeName") or "a node"
    priority = _priority(pod)
    return [f"made room on {node} by preempting pods of a priority below {priority}: {', '.join(sorted(set(victims)))}"]


def budget_lines(pod: Object, budgets: Sequence[Object]) -> list[str]:
    """Return why an eviction request for the pod would be refused at the moment; empty if it would not be."""
    phase = pod.get("status", {}).get("phase")
    if pod["metadata"].get("deletionTimestamp") or phase in ("Pending", *_TERMINAL_PHASES):
        return []
    labels = pod["metadata"].get("labels") or {}
    selecting = [budget for budget in budgets if _selects(budget, labels)]
    names = [str(budget["metadata"]["name"]) for budget in selecting]
    if len(names) > 1:
        return [f"cannot be evicted: several PodDisruptionBudgets select it: {', '.join(sorted(names))}; keep one"]
    return [line for budget in selecting if (line := _refusal(pod, budget))]


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    from sampan.api.codec import json
    from sampan.api.types.meta_v1 import LabelSelector

    selector = budget.get("spec", {}).get("selector")
    return selector is not None and selector_of(json.from_value(selector, LabelSelector)).matches(labels)


def _refusal(pod: Object, budget: Object) -> str:
    status = budget.get("status", {})
    if status.get("disruptionsAllowed", 0) > 0:
        return ""
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if _true_condition(pod, "Ready") is None:  # a pod that is not ready may be evicted if the policy allows it
        policy = budget.get("spec", {}).get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
        if policy == "AlwaysAllow" or current >= desired > 0:
            return ""
    name = budget["metadata"]["name"]
    return f"eviction requests are refused: PodDisruptionBudget {name} needs {desired} healthy pods and has {current}"


def request_lines(records: Sequence[Object], *, now: float) -> list[str]:
    """Return who requested the eviction or the deletion of the pod, from the records of the API server.

    Requests of one user with one result are one line, with the time of the last.
    """
    groups: dict[tuple[str, str, str], list[Object]] = {}
    for record in records:
        is_eviction = record.get("subject", "").endswith("/eviction")
        action = "eviction" if is_eviction else "deletion" if record.get("action") == "delete" else ""
        is_completion = record.get("actor", "").startswith("system:node:")  # the kubelet ends a graceful deletion
        if action and record.get("component") == "apiserver" and not is_completion:
            groups.setdefault((record.get("actor", ""), action, record.get("outcome", "")), []).append(record)
    return [_request(*key, requests, now) for key, requests in groups.items()]


def _request(actor: str, action: str, outcome: str, requests: Sequence[Object], now: float) -> str:
    ago = format_age(max(0.0, now - requests[-1]["time"]))
    times = f", {len(requests)} times" if len(requests) > 1 else ""
    if outcome.startswith("2"):
        return f"{actor or 'somebody'} requested its {action} {ago} ago{times}"
    reason = outcome.partition(" ")[2] or outcome
    because = " by a disruption budget" if reason == "TooManyRequests" else f" ({reason})"
    return f"{actor or 'somebody'} requested its {action} {ago} ago{times}: refused{because}"


def _priority(pod: Object | None) -> int:
    return int((pod or {}).get("spec", {}).get("priority") or 0)


def _true_condition(pod: Object, name: str) -> Object | None:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((entry for entry in conditions if (entry["type"], entry["status"]) == (name, "True")), None)


class DisruptionSource:
    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    async def explain(self, pod: Object, events: Sequence[Object]) -> list[str]:
        """Return what disrupted the pod, which pods were preempted for it, and why it cannot be evicted."""
        metadata = pod["metadata"]
        lines = disruption_lines(pod, events, preemptor=await self._preemptor(events))
        lines += await self._taints(lines, pod.get("spec", {}).get("nodeName", ""))
        if pod.get("status", {}).get("reason") == "Evicted":
            lines += await self._pressure(pod.get("spec", {}).get("nodeName", ""))
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
        """Return why a pod of this name was removed; empty if there are no events or records of it."""
        selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
        events = await read_items(self._reader, f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": selector})
        lines = disruption_lines(None, events, preemptor=await self._preemptor(events))
        lines += await self._taints(lines, node_of_deleted(events))
        return lines + request_lines(await self._records(namespace, name), now=time.time())

    async def explain_replaced_pods(self, namespace: str, workload: str, pods: Sequence[Object]) -> list[str]:
        """Return the disruptions of pods of a workload that no longer exist. Such pods are recognized by their
        names."""
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

    async def _pressure(self, node: str) -> list[str]:
        value = await self._reader.get(f"/api/v1/nodes/{node}") if node else None
        return await read_pressure_lines(self._reader, value) if value is not None else []

    async def _preemptor(self, events: Sequence[Object]) -> Object | None:
        related = next((event.get("related") for event in reversed(events) if event.get("reason") == PREEMPTED), None)
        if not related or not related.get("name"):
            return None
        return await self._reader.get(f"/api/v1/namespaces/{related['namespace']}/pods/{related['name']}")

    async def _records(self, namespace: str, name: str) -> list[Object]:
        return await self._reader.lines(RECORDS_PATH, {"subject": f"pods/{namespace}/{name}"})
