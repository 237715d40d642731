"""The default flow schemas and priority levels."""

from __future__ import annotations

from typing import Any

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_ALL = ["*"]
_EVERYBODY = ("system:unauthenticated", "system:authenticated")
_EVERYTHING: dict[str, Any] = {
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


def _named(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec}


def _schema(
    name: str, level: str, precedence: int, method: str, subjects: list[dict[str, Any]], rules: dict[str, Any]
) -> dict[str, Any]:
    spec: dict[str, Any] = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return _named(name, {**spec, "rules": [{"subjects": subjects, **rules}]})


def _level(name: str, shares: int, lendable: int, queues: int = 0, hand: int = 0) -> dict[str, Any]:
    response: dict[str, Any] = {"type": "Reject"}
    if queues:
        response = {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return _named(name, {"type": "Limited", "limited": limited})


_SYSTEM_ACCOUNTS = [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}]
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"

LEVELS: tuple[dict[str, Any], ...] = (
    _named("exempt", {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
    _level("catch-all", 5, 0),
    _level("system", 30, 33, 64, 6),
    _level("node-high", 40, 25, 64, 6),
    _level("leader-election", 10, 0, 16, 4),
    _level("workload-high", 40, 50, 128, 6),
    _level("workload-low", 100, 90, 128, 6),
    _level("global-default", 20, 50, 128, 6),
)

SCHEMAS: tuple[dict[str, Any], ...] = (
    _schema("exempt", "exempt", 1, "", _groups("system:masters"), _EVERYTHING),
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
    _schema("system-nodes", "system", 500, "ByUser", _groups("system:nodes"), _EVERYTHING),
    _schema("kube-controller-manager", "workload-high", 800, "ByNamespace", _users(_MANAGER), _EVERYTHING),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _users(_SCHEDULER), _EVERYTHING),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", _SYSTEM_ACCOUNTS, _EVERYTHING),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _groups("system:serviceaccounts"), _EVERYTHING),
    _schema("global-default", "global-default", 9900, "ByUser", _groups(*_EVERYBODY), _EVERYTHING),
    _schema("catch-all", "catch-all", 10000, "ByUser", _groups(*_EVERYBODY), _EVERYTHING),
)
