"""The node authorizer, for users system:node:NAME in the group system:nodes, and the graph of the objects that the pods
of a node refer to.

Requests that it does not decide on itself are allowed according to the rules of the cluster role system:node; the
NodeRestriction admission plugin limits them further. The counterpart is `plugin/pkg/auth/authorizer/node`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, get_args

from sampan.api.feature_gates import FeatureGates
from sampan.api.selectors import fields
from sampan.apiserver.authz.authorizer import ALLOW, NO_OPINION, Attributes, AuthzDecision, AuthzResult
from sampan.apiserver.authz.rbac.authorizer import RuleIndex
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects

if TYPE_CHECKING:
    from sampan.storage.cacher import Cacher
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from sampan.api.selectors.fields import FieldTerm
from sampan.api.semantics.pod_references import config_map_names, is_mirror_pod, secret_names
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.storage.cacher import ObjectSelection

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.registry.store import Store
    from sampan.storage.cacher import Cacher


Kind = Literal[
    "secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "pods", "resourceclaims"
]


_PODS, _CLAIMS, _VOLUMES = ("", "Pod"), ("", "PersistentVolumeClaim"), ("", "PersistentVolume")
_SOURCES = {
    "secrets": (_PODS, _CLAIMS, _VOLUMES),
    "persistentvolumes": (_PODS, _CLAIMS),
    "volumeattachments": (("storage.k8s.io", "VolumeAttachment"),),
    "resourceslices": (("resource.k8s.io", "ResourceSlice"),),
    "podcertificaterequests": (("certificates.k8s.io", "PodCertificateRequest"),),
}
"""The kinds that determine whether a node uses an object of a resource. For a resource that is not listed here, only
pods determine it."""


class NodeGraph:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    def list_unfilled_caches(self, resource: str) -> list[Cacher]:
        """Return the required watch caches that are not filled yet, because the server has just started."""
        stores = (self._store(group, kind) for group, kind in _SOURCES.get(resource, (_PODS,)))
        return [store.cacher for store in stores if not store.cacher.is_ready]

    def has(self, node: str, kind: Kind, namespace: str, name: str) -> bool:
        """Whether a pod on the node uses the object, or is the object."""
        if kind == "persistentvolumes":
            return name in self._volumes(node)
        pods = self._pods(node, namespace)
        if kind == "pods":
            return any(pod.metadata.name == name for pod in pods)
        if any(name in _names(pod, kind) for pod in pods if not is_mirror_pod(pod)):
            return True
        return kind == "secrets" and (namespace, name) in self._volume_secrets(node)

    def is_attached(self, node: str, attachment: str) -> bool:
        volume_attachment = self._peek("storage.k8s.io", "VolumeAttachment", "", attachment)
        return volume_attachment is not None and volume_attachment.spec.nodeName == node

    def is_slice_of(self, node: str, name: str) -> bool:
        resource_slice = self._peek("resource.k8s.io", "ResourceSlice", "", name)
        return resource_slice is not None and resource_slice.spec.nodeName == node

    def is_certificate_request_of(self, node: str, namespace: str, name: str) -> bool:
        request = self._peek("certificates.k8s.io", "PodCertificateRequest", namespace, name)
        return request is not None and request.spec.nodeName == node

    def _pods(self, node: str, namespace: str = "") -> Iterator[Pod]:
        store = self._registry.open_store_of("", "v1", "Pod")
        selection = ObjectSelection(namespace=namespace, fields=(FieldTerm("spec.nodeName", node),))
        return (store.cacher.object(item) for item in store.cacher.peek_selected(selection))

    def _claims(self, node: str) -> Iterator[PersistentVolumeClaim]:
        for pod in self._pods(node):
            for name in _claim_names(pod):
                claim = self._peek("", "PersistentVolumeClaim", pod.metadata.namespace, name)
                if claim is not None:
                    yield claim

    def _volumes(self, node: str) -> set[str]:
        return {claim.spec.volumeName for claim in self._claims(node) if claim.spec.volumeName}

    def _volume_secrets(self, node: str) -> set[tuple[str, str]]:
        """Return the secrets that CSI drivers need to mount the volumes of the node."""
        volumes = (self._peek("", "PersistentVolume", "", name) for name in self._volumes(node))
        sources = (volume.spec.csi for volume in volumes if volume is not None and volume.spec.csi is not None)
        refs = (
            ref
            for csi in sources
            for ref in (csi.nodePublishSecretRef, csi.nodeStageSecretRef, csi.nodeExpandSecretRef)
            if ref is not None
        )
        return {(ref.namespace, ref.name) for ref in refs}

    def _peek(self, group: str, kind: str, namespace: str, name: str) -> Any | None:
        return self._store(group, kind).peek(namespace, name)

    def _store(self, group: str, kind: str) -> Store:
        """Return the store of a kind, of which v1 may not be served yet at older levels."""
        beta = self._registry.scheme.find_by_kind(group, "v1beta1", kind)
        version = "v1" if beta is None or self._registry.scheme.find_by_kind(group, "v1", kind) else "v1beta1"
        return self._registry.open_store_of(group, version, kind)


def _names(pod: Pod, kind: Kind) -> Iterable[str]:
    """Return the names of objects of a kind, in the pod's namespace, that the pod uses."""
    spec = pod.spec
    if kind == "secrets":
        return secret_names(spec)
    if kind == "configmaps":
        return config_map_names(spec)
    if kind == "persistentvolumeclaims":
        return _claim_names(pod)
    if kind == "resourceclaims":
        return _resource_claims(pod)
    return (spec.serviceAccountName,)


def _claim_names(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield volume.persistentVolumeClaim.claimName
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _resource_claims(pod: Pod) -> Iterator[str]:
    for claim in pod.spec.resourceClaims:
        if claim.resourceClaimName:
            yield claim.resourceClaimName
    for status in pod.status.resourceClaimStatuses:
        if status.resourceClaimName:
            yield status.resourceClaimName


ResultOrAwaitable: TypeAlias = "AuthzResult | Awaitable[AuthzResult]"

_USER, _NODES = "system:node:", "system:nodes"
_LEASES = "kube-node-lease"
_KINDS: frozenset[str] = frozenset(get_args(Kind))
_NODE_OBJECT_VERBS = frozenset({"get", "create", "update", "patch", "delete"})


class NodeAuthorizer:
    def __init__(self, *, relations: NodeGraph, feature_gates: FeatureGates, name: str = "node") -> None:
        self.name = name
        self._relations, self._gates = relations, feature_gates
        self._rules: RuleIndex | None = None
        self._rules_by_resource: dict[tuple[str, str], Callable[[str, Attributes], ResultOrAwaitable]] = {
            ("", "secrets"): self._read_one,
            ("", "configmaps"): self._read_one,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("certificates.k8s.io", "podcertificaterequests"): self._certificate_request,
            ("coordination.k8s.io", "leases"): self._lease,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("storage.k8s.io", "volumeattachments"): self._get,
        }

    def authorize(self, attributes: Attributes) -> ResultOrAwaitable:
        user = attributes.user
        if _NODES not in user.groups or not user.name.startswith(_USER):
            return NO_OPINION
        node = user.name.removeprefix(_USER)
        if not node:
            return _no_opinion(f'unknown node for user "{user.name}"')
        rule = self._rules_by_resource.get((attributes.group, attributes.resource)) if attributes.is_resource else None
        return rule(node, attributes) if rule is not None else self._authorize_by_rules(attributes)

    def _authorize_by_rules(self, attributes: Attributes) -> AuthzResult:
        if self._rules is None:
            (role,) = (
                obj
                for obj in default_objects(self._gates)
                if (obj.kind, obj.metadata.name) == ("ClusterRole", "system:node")
            )
            self._rules = RuleIndex(role.rules)
        return ALLOW if self._rules.allows(attributes) else NO_OPINION

    # -- objects that pods use ---------------------------------------------------------------------------------------

    def _authorize_related(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if not attributes.name:
            return _no_opinion("No Object name found")
        if self._is_related(node, attributes):
            return ALLOW
        if waiting := self._relations.list_unfilled_caches(attributes.resource):
            return self._authorize_once_filled(waiting, node, attributes)
        return _unrelated_result(node)

    async def _authorize_once_filled(self, caches: Sequence[Cacher], node: str, attributes: Attributes) -> AuthzResult:
        for cache in caches:
            await cache.wait_ready()
        return ALLOW if self._is_related(node, attributes) else _unrelated_result(node)

    def _is_related(self, node: str, attributes: Attributes) -> bool:
        if attributes.resource == "volumeattachments":
            return self._relations.is_attached(node, attributes.name)
        if attributes.resource == "resourceslices":
            return self._relations.is_slice_of(node, attributes.name)
        if attributes.resource == "podcertificaterequests":
            return self._relations.is_certificate_request_of(node, attributes.namespace, attributes.name)
        return self._relations.has(node, _kind(attributes.resource), attributes.namespace, attributes.name)

    def _read_one(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if attributes.verb not in ("get", "list", "watch"):
            return _no_opinion("can only read resources of this type")
        if attributes.subresource:
            return _no_opinion("cannot read subresource")
        if not attributes.namespace:
            return _no_opinion("can only read namespaced object of this type")
        return self._authorize_related(node, attributes)

    def _get(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if attributes.verb != "get":
            return _no_opinion("can only get individual resources of this type")
        if attributes.subresource:
            return _no_opinion("cannot get subresource")
        return self._authorize_related(node, attributes)

    def _claim(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if attributes.subresource != "status":
            return self._get(node, attributes)
        if attributes.verb not in ("update", "patch"):
            return _no_opinion("can only get/update/patch this type")
        return self._authorize_related(node, attributes)

    def _account(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read_one(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return _no_opinion("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no_opinion("can only create token subresource of serviceaccount")
        return self._authorize_related(node, attributes)

    # -- objects of the node itself ----------------------------------------------------------------------------------

    def _lease(self, node: str, attributes: Attributes) -> AuthzResult:
        if attributes.verb not in _NODE_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != _LEASES:
            return _no_opinion(f'can only access leases in the "{_LEASES}" system namespace')
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access node lease with the same name as the requesting node")
        return ALLOW

    def _csi_node(self, node: str, attributes: Attributes) -> AuthzResult:
        if attributes.subresource == "status":
            if not self._gates.is_enabled("CSIVolumeHealth"):
                return _no_opinion("CSINode status access requires CSIVolumeHealth feature")
            if attributes.verb not in ("get", "update", "patch"):
                return _no_opinion("can only get, update, or patch CSINode status")
        elif attributes.subresource:
            return _no_opinion("cannot authorize CSINode subresources")
        elif attributes.verb not in _NODE_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a CSINode")
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access CSINode with the same name as the requesting node")
        return ALLOW

    def _slice(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if attributes.subresource:
            return _no_opinion("cannot authorize ResourceSlice subresources")
        if attributes.verb == "create":
            return ALLOW
        if attributes.verb in ("get", "update", "patch", "delete"):
            return self._authorize_related(node, attributes)
        if attributes.verb not in ("watch", "list", "deletecollection"):
            verbs = "get, watch, list, create, update, patch, delete, deletecollection"
            return _no_opinion(f"only the following verbs are allowed for a ResourceSlice: {verbs}")
        if _selects(attributes, "spec.nodeName", node):
            return ALLOW
        return _no_opinion("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _certificate_request(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        if not self._gates.is_enabled("PodCertificateRequest"):
            return NO_OPINION
        if attributes.subresource:
            return _no_opinion("nodes may not access the status subresource of PodCertificateRequests")
        if attributes.verb == "create":
            return ALLOW
        if attributes.verb == "get":
            return self._authorize_related(node, attributes)
        if attributes.verb not in ("list", "watch"):
            return _no_opinion(f"nodes may not {attributes.verb} podcertificaterequests")
        if _selects(attributes, "spec.nodeName", node):
            return ALLOW
        return _no_opinion("can only list/watch podcertificaterequests with nodeName field selector")

    def _node(self, node: str, attributes: Attributes) -> AuthzResult:
        if attributes.subresource:
            return (
                ALLOW if attributes.subresource == "status" and attributes.verb in ("update", "patch") else NO_OPINION
            )
        if attributes.verb in ("create", "update", "patch"):
            return ALLOW
        if attributes.verb not in ("get", "list", "watch"):
            return NO_OPINION
        if attributes.name == node:
            return ALLOW
        node_text = f"'{attributes.name}'" if attributes.name else "all nodes"
        return _no_opinion(f"node '{node}' cannot read {node_text}, only its own Node object")

    def _pod(self, node: str, attributes: Attributes) -> ResultOrAwaitable:
        verb, part = attributes.verb, attributes.subresource
        if part:
            allowed = (part == "status" and verb in ("update", "patch")) or (part == "eviction" and verb == "create")
            return ALLOW if allowed else NO_OPINION
        if verb == "get":
            return self._authorize_related(node, attributes)
        if verb in ("list", "watch"):
            if _selects(attributes, "spec.nodeName", node):
                return ALLOW
            if attributes.name:
                return self._authorize_related(node, attributes)
            return _no_opinion("can only list/watch pods with spec.nodeName field selector")
        return ALLOW if verb in ("create", "delete") else NO_OPINION


def _kind(resource: str) -> Kind:
    if resource not in _KINDS:
        raise ValueError(f"nodes have no relation to {resource}")
    return resource  # type: ignore[return-value]


def _unrelated_result(node: str) -> AuthzResult:
    return _no_opinion(f"no relationship found between node '{node}' and this object")


def _no_opinion(why: str) -> AuthzResult:
    """Return no opinion: another authorizer may still allow the request."""
    return AuthzResult(AuthzDecision.NO_OPINION, why)


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    try:
        return (field, value) in fields.parse(attributes.field_selector).exact()
    except fields.FieldSelectorError:
        return False
