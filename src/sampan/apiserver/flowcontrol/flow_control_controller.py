"""The stored flow schemas and priority levels: creates the defaults, follows changes and reports dangling schemas.

The counterparts are `k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap` and `util/flowcontrol/apf_controller.go`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.semantics.conditions import find_condition
from sampan.api.values import times
from sampan.apiserver.flowcontrol.fairness import Fairness
from sampan.apiserver.flowcontrol.priority_level import PERIOD_S, SAMPLES
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.request.patches import MERGE_PATCH
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher.follower import follow_changes

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_ALL = ["*"]
_EVERYBODY = ("system:unauthenticated", "system:authenticated")
_ALL_REQUESTS: dict[str, Any] = {
    "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL, "clusterScope": True, "namespaces": _ALL}],
    "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
}


def _groups(*names: str) -> list[dict[str, Any]]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[dict[str, Any]]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _resources(verbs: list[str], group: str, *names: str, is_cluster: bool = False) -> dict[str, Any]:
    rule = {"verbs": verbs, "apiGroups": [group], "resources": list(names), "namespaces": _ALL}
    return {**rule, "clusterScope": True} if is_cluster else rule


def _make_object(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec}


def _schema(
    name: str, level: str, precedence: int, method: str, subjects: list[dict[str, Any]], rules: dict[str, Any]
) -> dict[str, Any]:
    spec: dict[str, Any] = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return _make_object(name, {**spec, "rules": [{"subjects": subjects, **rules}]})


def _level(name: str, shares: int, lendable: int, queues: int = 0, hand: int = 0) -> dict[str, Any]:
    response: dict[str, Any] = {"type": "Reject"}
    if queues:
        response = {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return _make_object(name, {"type": "Limited", "limited": limited})


_SYSTEM_ACCOUNTS = [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}]
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"

LEVELS: tuple[dict[str, Any], ...] = (
    _make_object("exempt", {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
    _level("catch-all", 5, 0),
    _level("system", 30, 33, 64, 6),
    _level("node-high", 40, 25, 64, 6),
    _level("leader-election", 10, 0, 16, 4),
    _level("workload-high", 40, 50, 128, 6),
    _level("workload-low", 100, 90, 128, 6),
    _level("global-default", 20, 50, 128, 6),
)

SCHEMAS: tuple[dict[str, Any], ...] = (
    _schema("exempt", "exempt", 1, "", _groups("system:masters"), _ALL_REQUESTS),
    _schema(
        "probes",
        "exempt",
        2,
        "",
        _groups(*_EVERYBODY),
        {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]},
    ),
    _schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        [*_users(_MANAGER, _SCHEDULER), *_SYSTEM_ACCOUNTS],
        {"resourceRules": [_resources(["get", "create", "update"], "coordination.k8s.io", "leases")]},
    ),
    _schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        _groups("system:nodes"),
        {
            "resourceRules": [
                _resources(_ALL, "", "nodes", "nodes/status", is_cluster=True),
                _resources(_ALL, "coordination.k8s.io", "leases"),
            ]
        },
    ),
    _schema("system-nodes", "system", 500, "ByUser", _groups("system:nodes"), _ALL_REQUESTS),
    _schema("kube-controller-manager", "workload-high", 800, "ByNamespace", _users(_MANAGER), _ALL_REQUESTS),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _users(_SCHEDULER), _ALL_REQUESTS),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", _SYSTEM_ACCOUNTS, _ALL_REQUESTS),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _groups("system:serviceaccounts"), _ALL_REQUESTS),
    _schema("global-default", "global-default", 9900, "ByUser", _groups(*_EVERYBODY), _ALL_REQUESTS),
    _schema("catch-all", "catch-all", 10000, "ByUser", _groups(*_EVERYBODY), _ALL_REQUESTS),
)


log = logging.getLogger(__name__)

GROUP = "flowcontrol.apiserver.k8s.io"
_ROOT = f"/apis/{GROUP}/v1"
_SCHEMAS, _LEVELS = "flowschemas", "prioritylevelconfigurations"
_KINDS = ("FlowSchema", "PriorityLevelConfiguration")
_USER = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))
_RESTORE_S = 60.0


class FlowControlController:
    def __init__(self, *, fairness: Fairness, pipeline: Pipeline) -> None:
        self._fairness, self._pipeline = fairness, pipeline
        self._changed = asyncio.Event()

    async def ensure_defaults(self) -> None:
        """Create missing default objects, and update those with the annotation autoupdate-spec=true."""
        await asyncio.gather(*(self._ensure(_LEVELS, value) for value in LEVELS))
        await asyncio.gather(*(self._ensure(_SCHEMAS, value) for value in SCHEMAS))

    async def run(self) -> None:
        """Follow the stored objects until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in _KINDS:
                group.create_task(self._follow(kind))
            group.create_task(self._sample())
            group.create_task(self._restore())
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._apply_stored()

    async def _sample(self) -> None:
        """Sample the levels. Borrowing depends on the real load, so it uses the time of the event loop and not the
        server's clock."""
        while True:
            await asyncio.sleep(PERIOD_S / SAMPLES)
            self._fairness.sample()

    async def _restore(self) -> None:
        """Restore default objects that were deleted or changed."""
        while True:
            await asyncio.sleep(_RESTORE_S)
            try:
                if self.has_outdated_defaults():
                    await self.ensure_defaults()
            except (errors.ApiError, StorageError) as error:
                log.warning("cannot write the mandatory flow control configuration: %s", error)

    def has_outdated_defaults(self) -> bool:
        """Whether a default object is missing, or differs and is still updated automatically."""
        for kind, desired in zip(_KINDS, (SCHEMAS, LEVELS), strict=True):
            stored = {obj.metadata.name: obj for obj in self._list_stored(kind)}
            if any(_is_outdated(stored.get(value["metadata"]["name"]), value) for value in desired):
                return True
        return False

    async def _follow(self, kind: str) -> None:
        async def note_change() -> None:
            self._changed.set()

        store = self._pipeline.endpoints.registry.open_store_of(GROUP, "v1", kind)
        await follow_changes(store.cacher, f"objects of kind {kind} for flow control", note_change)

    async def _apply_stored(self) -> None:
        schemas, levels = (self._list_stored(kind) for kind in _KINDS)
        self._fairness.configure(schemas, levels)
        names = {level.metadata.name for level in levels}
        for schema in schemas:
            try:
                await self._update_dangling_condition(schema, names)
            except (errors.ApiError, StorageError) as error:
                log.warning("cannot update the status of FlowSchema %s: %s", schema.metadata.name, error)

    def _list_stored(self, kind: str) -> Sequence[Any]:
        cacher = self._pipeline.endpoints.registry.open_store_of(GROUP, "v1", kind).cacher
        return [cacher.object(item) for item in cacher.peek_all()]

    async def _update_dangling_condition(self, schema: Any, levels: set[str]) -> None:
        """Update the Dangling condition of a schema, which is true if its priority level does not exist."""
        level = schema.spec.priorityLevelConfiguration.name
        status, reason, tail = ("False", "Found", "it exists") if level in levels else _DANGLING
        link = "and" if level in levels else "but"
        present = find_condition(schema.status.conditions, "Dangling")
        message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {link} {tail}'
        if present is not None and (present.status, present.message) == (status, message):
            return
        now = times.format_time(self._pipeline.endpoints.registry.clock.now())
        if present is not None and present.status == status:
            now = present.lastTransitionTime or now
        condition = {"type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason}
        others = [msgspec.to_builtins(existing) for existing in schema.status.conditions if existing.type != "Dangling"]
        value = {"status": {"conditions": [*others, {**condition, "message": message}]}}
        await self._send("PATCH", f"{_ROOT}/{_SCHEMAS}/{schema.metadata.name}/status", value, MERGE_PATCH)

    async def _ensure(self, plural: str, value: dict[str, Any]) -> None:
        path = f"{_ROOT}/{plural}"
        try:
            await self._send("POST", path, value)
        except errors.AlreadyExists:
            await self._update_spec(f"{path}/{value['metadata']['name']}", value)

    async def _update_spec(self, path: str, value: dict[str, Any]) -> None:
        response = await self._send("GET", path)
        current = msgspec.json.decode(response.raw)
        if current["metadata"].get("annotations", {}).get(AUTO_UPDATE) == "true" and current["spec"] != value["spec"]:
            await self._send("PUT", path, {**current, "spec": value["spec"]})

    async def _send(self, method: str, path: str, value: Any = None, media: str = JSON) -> Any:
        body = msgspec.json.encode(value) if value is not None else b""
        headers = {"Content-Type": media, "User-Agent": "sampan-apiserver"}
        call = Call(method=method, path=path, query=Query(""), headers=headers, body=body, user=_USER)
        return await self._pipeline.serve_as(call)


def _is_outdated(stored: Any | None, value: dict[str, Any]) -> bool:
    if stored is None:
        return True
    return bool(
        stored.metadata.annotations.get(AUTO_UPDATE) == "true" and msgspec.to_builtins(stored.spec) != value["spec"]
    )


_DANGLING = ("True", "NotFound", "there is no such object")
