"""An index of roles and bindings by subject. The rules of a user are computed once and cached until a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sampan.api import gotext
from sampan.api.types.rbac_v1 import PolicyRule, RoleRef, Subject
from sampan.apiserver.authz.decisions import Decision, Verdict
from sampan.apiserver.authz.rbac.grants import Grants
from sampan.apiserver.call import User

GROUP = "rbac.authorization.k8s.io"
Kind = Literal["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]
KINDS: tuple[Kind, ...] = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
Key = tuple[str, str]
"""The namespace, empty for cluster-scoped objects, and the name."""
_MOST_KEPT = 10_000


class MissingRole(LookupError):
    """A bound role does not exist; the message is that of kube-apiserver."""

    def __init__(self, ref: RoleRef) -> None:
        super().__init__(f"{ref.kind.lower()}.{GROUP} {gotext.quote(ref.name)} not found")


class RbacIndex:
    def __init__(self) -> None:
        self._roles: dict[Key, Any] = {}
        self._bindings: dict[Key, Any] = {}
        self._by_subject: dict[tuple[str, str], dict[str, Subject]] = {}
        """The names of bindings, with the first matching subject of each, by namespace and subject."""
        self._kept: dict[tuple[str, tuple[str, ...], str], Grants] = {}

    def put(self, obj: Any) -> None:
        """Add or replace a role or binding."""
        key = (obj.metadata.namespace, obj.metadata.name)
        if obj.kind.endswith("Role"):
            self._roles[key] = obj
        else:
            self._unbind(key)
            self._bindings[key] = obj
            for subject in obj.subjects:
                if name := subject_name(subject, key[0]):
                    self._by_subject.setdefault((key[0], name), {}).setdefault(key[1], subject)
        self._kept.clear()

    def drop(self, kind: str, namespace: str, name: str) -> None:
        key = (namespace, name)
        if kind.endswith("Role"):
            self._roles.pop(key, None)
        else:
            self._unbind(key)
        self._kept.clear()

    def replace(self, kind: Kind, objects: Iterable[Any]) -> None:
        """Replace all objects of a kind."""
        desired = {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}
        current: Mapping[Key, Any] = self._roles if kind.endswith("Role") else self._bindings
        for key, obj in list(current.items()):
            if obj.kind == kind and key not in desired:
                self.drop(kind, *key)
        for obj in desired.values():
            self.put(obj)

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return a role or binding, which is shared and read-only."""
        return (self._roles if kind.endswith("Role") else self._bindings).get((namespace, name))

    def _unbind(self, key: Key) -> None:
        old = self._bindings.pop(key, None)
        for subject in old.subjects if old is not None else ():
            subject_key = (key[0], subject_name(subject, key[0]))
            bound = self._by_subject.get(subject_key)
            if bound is not None and bound.pop(key[1], None) is not None and not bound:
                del self._by_subject[subject_key]

    def grants(self, user: User, namespace: str) -> Grants:
        """Return the rules that the user has by bindings in this namespace; by cluster role bindings if it is empty."""
        key = (user.name, user.groups, namespace)
        grants = self._kept.get(key)
        if grants is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            grants = self._kept[key] = self._collect(user, namespace)
        return grants

    def _collect(self, user: User, namespace: str) -> Grants:
        grants, bound = Grants(), dict[str, Subject]()
        for name in (f"u:{user.name}", *(f"g:{group}" for group in user.groups)):
            for binding, subject in self._by_subject.get((namespace, name), {}).items():
                bound.setdefault(binding, subject)
        for name in sorted(bound):
            ref = self._bindings[namespace, name].roleRef
            try:
                rules = self.rules_of(ref, namespace)
            except MissingRole as missing:
                grants.faults.append(str(missing))
            else:
                grants.add(rules, _allowed(name, namespace, ref, bound[name]))
        return grants

    def rules_of(self, ref: RoleRef, namespace: str) -> list[PolicyRule]:
        """Return the rules of the role that a binding in this namespace refers to. Raise `MissingRole` if it does not
        exist."""
        role = self._roles.get((namespace if ref.kind == "Role" else "", ref.name))
        if role is None:
            raise MissingRole(ref)
        return role.rules or []


def subject_name(subject: Subject, namespace: str) -> str:
    """Return the key of a binding's subject, a user or a group; empty if it matches no user."""
    if subject.kind == "User":
        return f"u:{subject.name}"
    if subject.kind == "Group":
        return f"g:{subject.name}"
    where = subject.namespace or namespace
    return f"u:system:serviceaccount:{where}:{subject.name}" if subject.kind == "ServiceAccount" and where else ""


def _allowed(name: str, namespace: str, ref: RoleRef, subject: Subject) -> Decision:
    """Return the decision for requests that a binding allows to one of its subjects."""
    kind, whole = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    subject_text = f"{subject.name}/{subject.namespace}" if subject.kind == "ServiceAccount" else subject.name
    by = f"{kind} {gotext.quote(whole)} of {ref.kind} {gotext.quote(ref.name)}"
    return Decision(Verdict.ALLOWED, f"RBAC: allowed by {by} to {subject.kind} {gotext.quote(subject_text)}")
