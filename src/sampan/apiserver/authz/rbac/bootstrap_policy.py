"""The default roles and bindings of every cluster, from `bootstrap.json`, reconciled when the server starts.

The file lists for each role its rules, the roles into which it is aggregated (`partOf`), and whether it is an
aggregated role itself (`whole`); for each binding its role and its subjects. Lists are words separated by spaces;
`core` is the core API group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.codec import json
from sampan.api.feature_gates import FeatureGates
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from sampan.apiserver.authz.rbac import policy_rules
from sampan.apiserver.authz.rbac.authorizer import GROUP, RbacIndex
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.request.negotiation import JSON
from sampan.machinery import errors
from sampan.machinery.copies import copy_of

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_PART = "rbac.authorization.k8s.io/aggregate-to-"


class _Rule(msgspec.Struct):
    verbs: str
    groups: str = ""
    resources: str = ""
    names: str = ""
    urls: str = ""
    when: str = ""
    """The feature gates that must all be on for the rule to be included."""


class _Role(msgspec.Struct):
    rules: list[_Rule] = msgspec.field(default_factory=list)
    partOf: str = ""
    whole: str = ""
    when: str = ""
    """The feature gates that must all be on for the role to exist."""


class _Binding(msgspec.Struct):
    role: str
    subjects: list[str]
    when: str = ""
    """The feature gates that must all be on for the binding to exist."""


class _BootstrapPolicyFile(msgspec.Struct):
    clusterRoles: dict[str, _Role]
    clusterRoleBindings: dict[str, _Binding]
    roles: dict[str, _Role]
    roleBindings: dict[str, _Binding]


def default_objects(feature_gates: FeatureGates | None = None) -> Iterator[Any]:
    """Return the default objects, roles before the bindings that refer to them."""
    gates = feature_gates or FeatureGates()
    text = resources.files(__package__).joinpath("bootstrap.json").read_bytes()
    data = msgspec.json.decode(text, type=_BootstrapPolicyFile)
    data.clusterRoles = {name: row for name, row in data.clusterRoles.items() if _is_included(row.when, gates)}
    bindings = {name: row for name, row in data.clusterRoleBindings.items() if _is_included(row.when, gates)}
    for cluster_role in data.clusterRoles.values():
        cluster_role.rules = [rule for rule in cluster_role.rules if _is_included(rule.when, gates)]
    for name, role in data.clusterRoles.items():
        yield _cluster_role(name, role)
    for name, role in data.roles.items():
        yield Role(metadata=_meta(name), rules=[_rule(rule) for rule in role.rules])
    for name, binding in bindings.items():
        yield ClusterRoleBinding(metadata=_meta(name), roleRef=_ref(binding), subjects=_subjects(binding))
    for name, binding in data.roleBindings.items():
        yield RoleBinding(metadata=_meta(name), roleRef=_ref(binding), subjects=_subjects(binding))


def _is_included(when: str, gates: FeatureGates) -> bool:
    return all(map(gates.is_enabled, when.split()))


def _meta(name: str, labels: Mapping[str, str] | None = None) -> ObjectMeta:
    namespace, _, name = name.rpartition("/")
    annotations = {AUTO_UPDATE: "true"}
    return ObjectMeta(name=name, namespace=namespace, labels={**LABEL, **(labels or {})}, annotations=annotations)


def _cluster_role(name: str, role: _Role) -> ClusterRole:
    meta = _meta(name, {_PART + whole: "true" for whole in role.partOf.split()})
    if not role.whole:
        return ClusterRole(metadata=meta, rules=[_rule(rule) for rule in role.rules])
    selector = LabelSelector(matchLabels={_PART + role.whole: "true"})
    return ClusterRole(metadata=meta, aggregationRule=AggregationRule(clusterRoleSelectors=[selector]))


def _rule(rule: _Rule) -> PolicyRule:
    return PolicyRule(
        verbs=rule.verbs.split(),
        apiGroups=["" if group == "core" else group for group in rule.groups.split()],
        resources=rule.resources.split(),
        resourceNames=rule.names.split(),
        nonResourceURLs=rule.urls.split(),
    )


def _ref(binding: _Binding) -> RoleRef:
    kind, _, name = binding.role.partition(" ")
    return RoleRef(apiGroup=GROUP, kind=kind, name=name)


def _subjects(binding: _Binding) -> list[Subject]:
    return [_subject(*words.split(" ", 1)) for words in binding.subjects]


def _subject(kind: str, whole: str) -> Subject:
    if kind != "ServiceAccount":
        return Subject(kind=kind, apiGroup=GROUP, name=whole)
    namespace, _, name = whole.partition("/")
    return Subject(kind=kind, name=name, namespace=namespace)


@dataclass(frozen=True, slots=True)
class BootstrapChanges:
    create: list[Any]
    update: list[Any]
    recreate: list[Any]
    """Bindings that exist with another role. They are deleted and created again, because roleRef is immutable."""


def plan_changes(index: RbacIndex, gates: FeatureGates | None = None) -> BootstrapChanges:
    """Return the writes that reconcile the default roles and bindings. Additions by users are kept; objects with the
    annotation autoupdate=false are left alone."""
    changes = BootstrapChanges([], [], [])
    for desired in default_objects(gates):
        present = index.get(desired.kind, desired.metadata.namespace, desired.metadata.name)
        if present is None:
            changes.create.append(desired)
        elif present.metadata.annotations.get(AUTO_UPDATE) == "false":
            continue
        elif desired.kind.endswith("Binding") and present.roleRef != desired.roleRef:
            changes.recreate.append(desired)
        elif (merged := _merge(present, desired)) != present:
            changes.update.append(merged)
    return changes


def _merge(present: Any, desired: Any) -> Any:
    merged = copy_of(present)
    merged.metadata.labels = {**desired.metadata.labels, **present.metadata.labels}
    merged.metadata.annotations = {**desired.metadata.annotations, **present.metadata.annotations}
    if desired.kind.endswith("Binding"):
        merged.subjects += [subject for subject in desired.subjects if subject not in present.subjects]
    elif getattr(desired, "aggregationRule", None) is not None:
        aggregation = merged.aggregationRule = merged.aggregationRule or AggregationRule()
        selectors = desired.aggregationRule.clusterRoleSelectors
        aggregation.clusterRoleSelectors += [
            selector for selector in selectors if selector not in aggregation.clusterRoleSelectors
        ]
    else:
        present_rules = present.rules or []
        if added := _find_missing_rules(present_rules, desired.rules):
            merged.rules = [*present_rules, *added]
    return merged


def _find_missing_rules(present: list[PolicyRule], desired: list[PolicyRule]) -> list[PolicyRule]:
    try:
        return policy_rules.find_uncovered_rules(present, desired).rules
    except policy_rules.TooComplex:  # a user has added rules that are too complex to compare
        return desired


_SYSTEM = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))


async def reconcile(pipeline: Pipeline, index: RbacIndex, gates: FeatureGates | None = None) -> None:
    """Write missing and outdated objects concurrently, so that the writes share a commit. `index` must be filled, and
    contains the new objects afterwards. Conflicts are ignored, because another server that shares the storage writes
    the same."""
    changes = plan_changes(index, gates)
    await asyncio.gather(
        *(_create(pipeline, obj) for obj in changes.create),
        *(_update(pipeline, obj) for obj in changes.update),
        *(_recreate(pipeline, obj) for obj in changes.recreate),
    )
    for obj in (*changes.create, *changes.update, *changes.recreate):
        index.put(obj)


async def _create(pipeline: Pipeline, obj: Any) -> None:
    with suppress(errors.AlreadyExists):
        await _send(pipeline, "POST", _collection(obj), json.encode(obj))


async def _update(pipeline: Pipeline, obj: Any) -> None:
    with suppress(errors.Conflict):
        await _send(pipeline, "PUT", f"{_collection(obj)}/{obj.metadata.name}", json.encode(obj))


async def _recreate(pipeline: Pipeline, obj: Any) -> None:
    with suppress(errors.NotFound):
        await _send(pipeline, "DELETE", f"{_collection(obj)}/{obj.metadata.name}")
    await _create(pipeline, obj)


def _collection(obj: Any) -> str:
    scope = f"namespaces/{obj.metadata.namespace}/" if obj.metadata.namespace else ""
    return f"/apis/{GROUP}/v1/{scope}{obj.kind.lower()}s"


async def _send(pipeline: Pipeline, method: str, path: str, body: bytes = b"") -> None:
    headers = {"Content-Type": JSON, "User-Agent": "kube-apiserver"}
    await pipeline.serve_as(Call(method=method, path=path, query=Query(""), headers=headers, body=body, user=_SYSTEM))
