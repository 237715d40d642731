"""The wire format of extenders: JSON with the field names of the Go types, read case-insensitively."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.pod_info import PodInfo


class FilterResult(msgspec.Struct):
    nodes: list[str] | None = None
    """The names of the feasible nodes; None if the response does not contain any list."""
    failed: Mapping[str, str] = {}
    unresolvable: Mapping[str, str] = {}
    error: str = ""


class Victims(msgspec.Struct):
    uids: list[str]
    violations: int


def node_args(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> bytes:
    """Encode ExtenderArgs."""
    listed: Any = None
    names: Any = None
    if names_only:
        names = [node.metadata.name for node in nodes]
    else:
        listed = {"metadata": {}, "items": [msgspec.Raw(json.encode(node)) for node in nodes]}
    return msgspec.json.encode({"Pod": msgspec.Raw(json.encode(pod)), "Nodes": listed, "NodeNames": names})


def preemption_args(pod: Pod, victims: Mapping[str, tuple[Sequence[PodInfo], int]], *, names_only: bool) -> bytes:
    """Encode ExtenderPreemptionArgs from the victims and the number of PDB violations of each node."""
    whole = {node: _victims(infos, count, names_only) for node, (infos, count) in victims.items()}
    return msgspec.json.encode(
        {
            "Pod": msgspec.Raw(json.encode(pod)),
            "NodeNameToVictims": None if names_only else whole,
            "NodeNameToMetaVictims": whole if names_only else None,
        }
    )


def _victims(infos: Iterable[PodInfo], count: int, names_only: bool) -> dict[str, Any]:
    pods: list[Any] = [{"UID": info.uid} if names_only else msgspec.Raw(json.encode(info.pod)) for info in infos]
    return {"Pods": pods, "NumPDBViolations": count}


def binding_args(pod: Pod, node: str) -> bytes:
    meta = pod.metadata
    return msgspec.json.encode({"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node})


def filter_result(value: Any, *, names_only: bool) -> FilterResult:
    """Decode ExtenderFilterResult; node names are read only if the request carried names."""
    fields = _lowered(value)
    names, listed = fields.get("nodenames") if names_only else None, fields.get("nodes")
    if names is None and listed is not None:
        names = [item["metadata"]["name"] for item in _lowered(listed).get("items") or ()]
    return FilterResult(
        nodes=names,
        failed=fields.get("failednodes") or {},
        unresolvable=fields.get("failedandunresolvablenodes") or {},
        error=fields.get("error") or "",
    )


def priorities(value: Any) -> dict[str, int]:
    """Decode HostPriorityList to scores by node."""
    return {priority["host"]: int(priority.get("score") or 0) for priority in map(_lowered, value or ())}


def preemption_result(value: Any) -> dict[str, Victims]:
    nodes = _lowered(value).get("nodenametometavictims") or {}
    return {node: _read_victims(_lowered(victims or {})) for node, victims in nodes.items()}


def _read_victims(found: Mapping[str, Any]) -> Victims:
    uids = [_lowered(pod).get("uid", "") for pod in found.get("pods") or ()]
    return Victims(uids=uids, violations=int(found.get("numpdbviolations") or 0))


def binding_error(value: Any) -> str:
    return str(_lowered(value or {}).get("error") or "")


def _lowered(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the answer is not an object")
    return {key.lower(): item for key, item in value.items()}
