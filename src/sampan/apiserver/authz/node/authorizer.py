"""The node authorizer, for users system:node:NAME in the group system:nodes.

Requests that it does not decide on itself are allowed according to the rules of the cluster role system:node; the
NodeRestriction admission plugin limits them further.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, get_args

from sampan.api import fields
from sampan.apiserver.authz.authorizer import ALLOWED, UNDECIDED, Attributes, Decision, Verdict
from sampan.apiserver.authz.node.graph import Kind, NodeRelations
from sampan.apiserver.authz.rbac.authorizer import Grants
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects

if TYPE_CHECKING:
    from sampan.storage.cacher import Cacher

Verdicts: TypeAlias = "Decision | Awaitable[Decision]"

_USER, _NODES = "system:node:", "system:nodes"
_LEASES = "kube-node-lease"
_KINDS: frozenset[str] = frozenset(get_args(Kind))
_OWN_VERBS = frozenset({"get", "create", "update", "patch", "delete"})


class NodeAuthorizer:
    def __init__(self, *, relations: NodeRelations) -> None:
        self._relations = relations
        self._rules: Grants | None = None
        self._judges: dict[tuple[str, str], Callable[[str, Attributes], Verdicts]] = {
            ("", "secrets"): self._read_one,
            ("", "configmaps"): self._read_one,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("coordination.k8s.io", "leases"): self._lease,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("storage.k8s.io", "volumeattachments"): self._get,
        }

    def decide(self, asked: Attributes) -> Verdicts:
        user = asked.user
        if _NODES not in user.groups or not user.name.startswith(_USER):
            return UNDECIDED
        node = user.name.removeprefix(_USER)
        if not node:
            return _no(f'unknown node for user "{user.name}"')
        judge = self._judges.get((asked.group, asked.resource)) if asked.is_resource else None
        return judge(node, asked) if judge is not None else self._by_rules(asked)

    def _by_rules(self, asked: Attributes) -> Decision:
        if self._rules is None:
            self._rules = Grants()
            (role,) = (
                obj for obj in default_objects() if (obj.kind, obj.metadata.name) == ("ClusterRole", "system:node")
            )
            self._rules.add(role.rules, ALLOWED)
        return self._rules.decide(asked) or UNDECIDED

    # -- objects that pods use ---------------------------------------------------------------------------------------

    def _related(self, node: str, asked: Attributes) -> Verdicts:
        if not asked.name:
            return _no("No Object name found")
        if self._is_related(node, asked):
            return ALLOWED
        if waiting := self._relations.unfilled(asked.resource):
            return self._once_filled(waiting, node, asked)
        return _unrelated(node)

    async def _once_filled(self, caches: Sequence[Cacher], node: str, asked: Attributes) -> Decision:
        for cache in caches:
            await cache.wait_ready()
        return ALLOWED if self._is_related(node, asked) else _unrelated(node)

    def _is_related(self, node: str, asked: Attributes) -> bool:
        if asked.resource == "volumeattachments":
            return self._relations.is_attached(node, asked.name)
        if asked.resource == "resourceslices":
            return self._relations.is_slice_of(node, asked.name)
        return self._relations.has(node, _kind(asked.resource), asked.namespace, asked.name)

    def _read_one(self, node: str, asked: Attributes) -> Verdicts:
        if asked.verb not in ("get", "list", "watch"):
            return _no("can only read resources of this type")
        if asked.subresource:
            return _no("cannot read subresource")
        if not asked.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, asked)

    def _get(self, node: str, asked: Attributes) -> Verdicts:
        if asked.verb != "get":
            return _no("can only get individual resources of this type")
        if asked.subresource:
            return _no("cannot get subresource")
        return self._related(node, asked)

    def _claim(self, node: str, asked: Attributes) -> Verdicts:
        if asked.subresource != "status":
            return self._get(node, asked)
        if asked.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, asked)

    def _account(self, node: str, asked: Attributes) -> Verdicts:
        if asked.verb == "get" and not asked.subresource:
            return self._read_one(node, asked)
        if asked.verb != "create" or not asked.name:
            return _no("can only create tokens for individual service accounts")
        if asked.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, asked)

    # -- objects of the node itself ----------------------------------------------------------------------------------

    def _lease(self, node: str, asked: Attributes) -> Decision:
        if asked.verb not in _OWN_VERBS:
            return _no("can only get, create, update, patch, or delete a node lease")
        if asked.namespace != _LEASES:
            return _no(f'can only access leases in the "{_LEASES}" system namespace')
        if asked.verb != "create" and asked.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, asked: Attributes) -> Decision:
        if asked.verb not in _OWN_VERBS:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if asked.subresource:
            return _no("cannot authorize CSINode subresources")
        if asked.verb != "create" and asked.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return ALLOWED

    def _slice(self, node: str, asked: Attributes) -> Verdicts:
        if asked.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if asked.verb == "create":
            return ALLOWED
        if asked.verb in ("get", "update", "patch", "delete"):
            return self._related(node, asked)
        if asked.verb not in ("watch", "list", "deletecollection"):
            verbs = "get, watch, list, create, update, patch, delete, deletecollection"
            return _no(f"only the following verbs are allowed for a ResourceSlice: {verbs}")
        if _selects(asked, "spec.nodeName", node):
            return ALLOWED
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _node(self, node: str, asked: Attributes) -> Decision:
        if asked.subresource:
            return ALLOWED if asked.subresource == "status" and asked.verb in ("update", "patch") else UNDECIDED
        if asked.verb in ("create", "update", "patch"):
            return ALLOWED
        if asked.verb not in ("get", "list", "watch"):
            return UNDECIDED
        if asked.name == node:
            return ALLOWED
        what = f"'{asked.name}'" if asked.name else "all nodes"
        return _no(f"node '{node}' cannot read {what}, only its own Node object")

    def _pod(self, node: str, asked: Attributes) -> Verdicts:
        verb, part = asked.verb, asked.subresource
        if part:
            allowed = (part == "status" and verb in ("update", "patch")) or (part == "eviction" and verb == "create")
            return ALLOWED if allowed else UNDECIDED
        if verb == "get":
            return self._related(node, asked)
        if verb in ("list", "watch"):
            if _selects(asked, "spec.nodeName", node):
                return ALLOWED
            if asked.name:
                return self._related(node, asked)
            return _no("can only list/watch pods with spec.nodeName field selector")
        return ALLOWED if verb in ("create", "delete") else UNDECIDED


def _kind(resource: str) -> Kind:
    if resource not in _KINDS:
        raise ValueError(f"nodes have no relation to {resource}")
    return resource  # type: ignore[return-value]


def _unrelated(node: str) -> Decision:
    return _no(f"no relationship found between node '{node}' and this object")


def _no(why: str) -> Decision:
    """Return no opinion: another authorizer may still allow the request."""
    return Decision(Verdict.UNDECIDED, why)


def _selects(asked: Attributes, field: str, value: str) -> bool:
    try:
        return (field, value) in fields.parse(asked.field_selector).exact()
    except fields.FieldSelectorError:
        return False
