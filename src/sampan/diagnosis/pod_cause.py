"""Find what made a controller create a pod: the last change of the spec of its owners, or the removal of another pod of
the same owner, from records of the flight recorder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sampan.diagnosis.cluster_reader import RECORDS_PATH, ClusterReader, Object

_MAX_OWNERS = 8
_SCHEDULE = "CronJob"
"""The kind of owner that creates objects by time, so that its own changes cause none of them."""
_ENDED = ("Failed", "Succeeded")
_NODE_USER = "system:node:"
_CONTROL_PLANE = ("system:node:", "system:serviceaccount:kube-system:", "system:sampan:")


@dataclass(frozen=True, slots=True)
class OwnerRecords:
    """The records about an owner of a pod."""

    own: Sequence[Object]
    """The records of the owner itself, oldest first."""
    owned: Sequence[Object]
    """The records of all objects that it controls, oldest first."""


def find_cause(creation: Object, owners: Sequence[OwnerRecords]) -> list[Object]:
    """Return the records of the changes that led to the creation of a pod, the first cause first. `owners` are the
    controller of the pod, the controller of that, and so on.

    A controller creates a pod because its owner has changed or because another pod of the owner was removed, whichever
    happened last. If the controller itself has removed that pod, a change of the owner was the reason for it.
    """
    causes: list[Object] = []
    effect = creation
    for owner in owners:
        change, removal = _last_change(owner.own, effect), _last_removal(owner.owned, effect)
        if removal and (change is None or change["time"] < removal[0]["time"]):
            causes += reversed(removal)
            if removal[0].get("actor") != creation.get("actor"):
                break
            effect = removal[0]
            change = _last_change(owner.own, effect)
        if change is not None:
            causes.append(change)
            effect = change
    return causes[::-1]


def _last_change(records: Sequence[Object], effect: Object) -> Object | None:
    """Return the last change of the spec before the effect by another user than the one who had the effect."""
    changes = (record for record in _changes(records) if record["time"] <= effect["time"])
    return max(
        (record for record in changes if record.get("actor") != effect.get("actor")),
        key=lambda record: float(record["time"]),
        default=None,
    )


def _changes(records: Sequence[Object]) -> Iterator[Object]:
    """Yield the records of changes of the spec, which raise the generation of an object that has one."""
    latest = 0
    for record in records:
        generation = int(record.get("generation", 0))
        is_status = str(record.get("subject", "")).endswith("/status")
        is_write = record["action"] in ("create", "update", "patch") and _has_succeeded(record)
        if is_write and not is_status and (not generation or generation > latest):
            yield record
        latest = max(latest, generation)


def _last_removal(records: Sequence[Object], effect: Object) -> list[Object]:
    """Return the records of the last removal before the effect of another object of the same kind: its end or the
    request to delete it, and its final deletion. The pod of a StatefulSet replaces the one with the same name."""
    plural, removals = _plural(effect), dict[str, list[Object]]()
    for record in records:
        if _plural(record) == plural and record["time"] <= effect["time"] and _is_removal(record):
            removals.setdefault(str(record.get("uid") or record["number"]), []).append(record)
    others = [group for group in removals.values() if group[0].get("uid") != effect.get("uid")]
    namesakes = [group for group in others if group[0]["subject"].startswith(str(effect.get("subject")))]
    last = max(namesakes or others, key=lambda group: float(group[0]["time"]), default=[])
    return [last[0], last[-1]] if namesakes and len(last) > 1 else last[:1]


def _is_removal(record: Object) -> bool:
    is_request = record["action"] in ("delete", "deletecollection") or is_eviction(record)
    has_ended = str(record.get("state", "")).startswith(_ENDED)
    return record["component"] == "apiserver" and (is_request or has_ended) and _has_succeeded(record)


def is_eviction(record: Object) -> bool:
    return record["action"] == "create" and str(record.get("subject", "")).endswith("/eviction")


def _has_succeeded(record: Object) -> bool:
    """Whether the request has changed something: a dry run has not."""
    outcome = str(record.get("outcome", ""))
    return outcome.startswith("2") and " " not in outcome


def _plural(record: Object) -> str:
    return str(record.get("subject", "")).partition("/")[0]


def describe_cause(record: Object) -> str:
    """Return the name of the step of a cause, such as `patch deployments scale` or `delete the previous pod`."""
    action, (plural, *path) = str(record["action"]), str(record.get("subject", "")).split("/")
    if plural != "pods" or action == "deletecollection":
        return " ".join([action, plural.partition(".")[0], *path[2:]])
    if is_eviction(record):
        return "evict the previous pod"
    if state := str(record.get("state", "")):
        return f"previous pod {state.partition(',')[0].lower()}"
    return f"{'remove' if str(record.get('actor', '')).startswith(_NODE_USER) else 'delete'} the previous pod"


async def read_owner_records(reader: ClusterReader, pod: Object) -> list[OwnerRecords]:
    """Return the records of the controller of a pod, of the controller of that, and so on."""
    levels: list[OwnerRecords] = []
    namespace, value = pod["metadata"].get("namespace", ""), pod
    for _ in range(_MAX_OWNERS):
        references = value["metadata"].get("ownerReferences") or ()
        owner = next((reference for reference in references if reference.get("controller")), None)
        if owner is None or owner["kind"] == _SCHEDULE:
            break
        own = await reader.lines(RECORDS_PATH, {"uid": owner["uid"]})
        owned = await reader.lines(RECORDS_PATH, {"owner": owner["uid"]})
        if not levels:
            own += await _read_node_changes(reader, pod) if owner["kind"] == "DaemonSet" else []
            query = {"subject": f"pods/{namespace}", "action": "deletecollection"}
            owned += await reader.lines(RECORDS_PATH, query)
        levels.append(OwnerRecords(own, owned))
        path = await reader.object_path(owner["apiVersion"], owner["kind"], namespace, owner["name"])
        owner_value = await reader.get(path) if path else None
        if owner_value is None:
            break
        value = owner_value
    return levels


async def _read_node_changes(reader: ClusterReader, pod: Object) -> list[Object]:
    """Return the records of the creation of the pod's node and of changes by users: a DaemonSet has a pod on each node
    that it selects."""
    node = await reader.get(f"/api/v1/nodes/{pod.get('spec', {}).get('nodeName') or '-'}")
    records = await reader.lines(RECORDS_PATH, {"uid": node["metadata"]["uid"]}) if node is not None else []
    return [
        record
        for record in records
        if record["action"] == "create" or not str(record.get("actor", "")).startswith(_CONTROL_PLANE)
    ]
