"""Builders of roles, bindings and request attributes for tests of authorizers."""

from typing import Any

from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from sampan.apiserver.authz import Attributes
from sampan.apiserver.authz.rbac import RbacIndex
from sampan.apiserver.request.call import UserInfo

GROUP = "rbac.authorization.k8s.io"


def rule(verbs: str, resources: str = "", *, groups: str = "core", names: str = "", urls: str = "") -> PolicyRule:
    """Return a rule; words are separated by spaces, and `core` is the API group without a name."""
    return PolicyRule(
        verbs=verbs.split(),
        apiGroups=[] if urls else ["" if group == "core" else group for group in groups.split()],
        resources=resources.split(),
        resourceNames=names.split(),
        nonResourceURLs=urls.split(),
    )


def role(name: str, *rules: PolicyRule, namespace: str = "") -> Role | ClusterRole:
    meta = ObjectMeta(name=name, namespace=namespace)
    return Role(metadata=meta, rules=list(rules)) if namespace else ClusterRole(metadata=meta, rules=list(rules))


def binding(
    name: str, ref: str, *subjects: str, namespace: str = "", kind: str = "ClusterRole"
) -> RoleBinding | ClusterRoleBinding:
    """Return a binding; subjects are written as `User ann`, `Group team` or `ServiceAccount ns/name`."""
    parts: dict[str, Any] = {
        "metadata": ObjectMeta(name=name, namespace=namespace),
        "roleRef": RoleRef(apiGroup=GROUP, kind=kind, name=ref),
        "subjects": [_subject(text) for text in subjects],
    }
    return RoleBinding(**parts) if namespace else ClusterRoleBinding(**parts)


def _subject(text: str) -> Subject:
    kind, _, whole = text.partition(" ")
    namespace, _, name = whole.rpartition("/")
    return Subject(kind=kind, name=name, namespace=namespace)


def index_of(*objects: Any) -> RbacIndex:
    index = RbacIndex()
    for obj in objects:
        index.put(obj)
    return index


ANN = UserInfo("ann", groups=("team", "system:authenticated"))


def attributes_of(verb: str, resource: str, user: UserInfo = ANN, **more: Any) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(user=user, verb=verb, resource=resource, subresource=subresource, **more)


def path_attributes(verb: str, path: str, user: UserInfo = ANN) -> Attributes:
    return Attributes(user=user, verb=verb, path=path, is_resource=False)
