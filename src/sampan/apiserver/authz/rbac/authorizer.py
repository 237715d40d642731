"""The RBAC authorizer: a request is allowed if a role that is bound to its user or groups has a rule for it.

`RbacIndex` holds roles and bindings by subject and is kept up to date from their watch caches. The rules of a user in
one scope are computed once, indexed so that a decision takes a few look-ups, and cached until a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from sys import getsizeof
from typing import Any, Literal

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.api.types.rbac_v1 import PolicyRule, RoleRef, Subject
from sampan.apiserver.authz.authorizer import NO_OPINION, Attributes, AuthzDecision, AuthzResult, ResolvedRules
from sampan.apiserver.request.call import UserInfo
from sampan.host.bounded_cache import BoundedCache

ALL = "*"


@dataclass(frozen=True, slots=True)
class _Grant:
    verbs: frozenset[str] | None
    """The verbs; None matches all."""
    groups: frozenset[str] | None
    """The API groups; None matches all."""
    names: frozenset[str]
    """The resource names; empty matches all."""

    def holds_verb(self, verb: str) -> bool:
        return self.verbs is None or verb in self.verbs


class RuleIndex:
    """The rules of one role, indexed so that a decision takes a few look-ups."""

    __slots__ = ("_by_path", "_by_prefix", "_by_resource", "rules")

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = rules
        self._by_resource: dict[str, list[_Grant]] = {}
        """Grants by resource alone: a rule with many groups and resources has only one entry per resource."""
        self._by_path: dict[str, list[_Grant]] = {}
        self._by_prefix: list[tuple[str, _Grant]] = []
        for rule in rules:
            grant = _Grant(_words(rule.verbs or ()), _words(rule.apiGroups), frozenset(rule.resourceNames))
            if rule.apiGroups:
                for resource in dict.fromkeys(rule.resources):
                    self._by_resource.setdefault(resource, []).append(grant)
            for url in dict.fromkeys(rule.nonResourceURLs):
                self._add_url(url, grant)

    def _add_url(self, url: str, grant: _Grant) -> None:
        if url.endswith(ALL):
            self._by_prefix.append((url.rstrip(ALL), grant))
        else:
            self._by_path.setdefault(url, []).append(grant)

    def allows(self, attributes: Attributes) -> bool:
        return self._allows_resource(attributes) if attributes.is_resource else self._allows_path(attributes)

    def _allows_resource(self, attributes: Attributes) -> bool:
        group, verb, name = attributes.group, attributes.verb, attributes.name
        resources = [attributes.whole_resource, ALL]
        if attributes.subresource:
            resources.append(f"*/{attributes.subresource}")
        for resource in resources:
            for grant in self._by_resource.get(resource, ()):
                if (
                    (grant.verbs is None or verb in grant.verbs)
                    and (grant.groups is None or group in grant.groups)
                    and (not grant.names or name in grant.names)
                ):
                    return True
        return False

    def _allows_path(self, attributes: Attributes) -> bool:
        verb, path = attributes.verb, attributes.path
        return any(grant.holds_verb(verb) for grant in self._by_path.get(path, ())) or any(
            path.startswith(prefix) and grant.holds_verb(verb) for prefix, grant in self._by_prefix
        )


@dataclass(slots=True)
class Grants:
    """The roles that a user has in one scope, by bindings."""

    errors: list[str] = field(default_factory=list)
    """Errors for bindings to roles that do not exist."""
    _bound: list[RuleIndex] = field(default_factory=list)
    """The role of each binding."""
    _roles: dict[int, tuple[RuleIndex, AuthzResult]] = field(default_factory=dict)
    """Each role once, with the decision for requests that its first binding allows, by the identity of its rules."""

    def add(self, index: RuleIndex, result: AuthzResult) -> None:
        """Add the rules of a role; `result` is returned for requests that they allow."""
        self._bound.append(index)
        self._roles.setdefault(id(index), (index, result))

    def add_error(self, message: str) -> None:
        """Add an error, unless the errors are too long already: names of roles can be as long as objects."""
        if sum(map(len, self.errors)) < limits.RBAC_ERROR_CHARACTERS:
            self.errors.append(message[: limits.RBAC_ERROR_CHARACTERS])

    def iterate_rules(self) -> Iterator[PolicyRule]:
        """Yield the rules of each binding. Many bindings can repeat a large role."""
        for index in self._bound:
            yield from index.rules

    def list_distinct_rules(self) -> list[PolicyRule]:
        """Return the rules of each role once."""
        return [rule for index, _ in self._roles.values() for rule in index.rules]

    def authorize(self, attributes: Attributes) -> AuthzResult | None:
        """Return the decision, or None if no rule allows the request."""
        for index, result in self._roles.values():
            if index.allows(attributes):
                return result
        return None

    def measure(self) -> int:
        """Return the bytes of the grants without the rules, which belong to the roles."""
        texts = (*self.errors, *(result.reason for _, result in self._roles.values()))
        return 100 * len(self._bound) + 500 * (1 + len(self._roles)) + sum(map(getsizeof, texts))


def _words(words: Iterable[str]) -> frozenset[str] | None:
    word_set = frozenset(words)
    return None if ALL in word_set else word_set


GROUP = "rbac.authorization.k8s.io"
Kind = Literal["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]
KINDS: tuple[Kind, ...] = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
Key = tuple[str, str]
"""The namespace, empty for cluster-scoped objects, and the name."""
_NO_GRANTS = Grants()
_TOO_MANY_RULES = "there are too many rules to list all of them"


class MissingRole(LookupError):
    """A bound role does not exist; the message is that of kube-apiserver."""

    def __init__(self, ref: RoleRef) -> None:
        super().__init__(f"{ref.kind.lower()}.{GROUP} {gotext.quote(ref.name)} not found")


class RbacIndex:
    def __init__(self) -> None:
        self._roles: dict[Key, Any] = {}
        self._bindings: dict[Key, Any] = {}
        self._by_subject: dict[str, dict[str, dict[str, Subject]]] = {}
        """The names of bindings, with the first matching subject of each, by namespace and subject."""
        self._indexes: dict[Key, RuleIndex] = {}
        """The indexed rules of roles that are in use."""
        self._kept: BoundedCache[tuple[str, tuple[str, ...], str], Grants] = BoundedCache(
            self._collect,
            max_entries=10_000,
            max_entry_bytes=32 << 10,
            max_bytes=16 << 20,
            measure=_measure_grants,
        )

    def put(self, obj: Any) -> None:
        """Add or replace a role or binding."""
        key = (obj.metadata.namespace, obj.metadata.name)
        if obj.kind.endswith("Role"):
            self._roles[key] = obj
            self._indexes.pop(key, None)
        else:
            self._unbind(key)
            self._bindings[key] = obj
            for subject in obj.subjects:
                if name := subject_name(subject, key[0]):
                    bound = self._by_subject.setdefault(key[0], {})
                    bound.setdefault(name, {}).setdefault(key[1], subject)
        self._kept.clear()

    def drop(self, kind: str, namespace: str, name: str) -> None:
        key = (namespace, name)
        if kind.endswith("Role"):
            self._roles.pop(key, None)
            self._indexes.pop(key, None)
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
        by_subject = self._by_subject.get(key[0], {})
        for subject in old.subjects if old is not None else ():
            name = subject_name(subject, key[0])
            bound = by_subject.get(name)
            if bound is not None and bound.pop(key[1], None) is not None and not bound:
                del by_subject[name]
        if not by_subject:
            self._by_subject.pop(key[0], None)

    def grants(self, user: UserInfo, namespace: str) -> Grants:
        """Return the rules that the user has by bindings in this namespace; by cluster role bindings if it is empty."""
        return self._kept[user.name, user.groups, namespace] if namespace in self._by_subject else _NO_GRANTS

    def _collect(self, scope: tuple[str, tuple[str, ...], str]) -> Grants:
        user_name, groups, namespace = scope
        grants, bound = Grants(), dict[str, Subject]()
        by_subject = self._by_subject[namespace]
        for name in (f"u:{user_name}", *(f"g:{group}" for group in groups)):
            for binding, subject in by_subject.get(name, {}).items():
                bound.setdefault(binding, subject)
        for name in sorted(bound):
            ref = self._bindings[namespace, name].roleRef
            try:
                index = self._index_of(ref, namespace)
            except MissingRole as missing:
                grants.add_error(str(missing))
            else:
                grants.add(index, _make_allow_result(name, namespace, ref, bound[name]))
        return grants

    def _index_of(self, ref: RoleRef, namespace: str) -> RuleIndex:
        key = _role_key(ref, namespace)
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = RuleIndex(self.rules_of(ref, namespace))
        return index

    def rules_of(self, ref: RoleRef, namespace: str) -> list[PolicyRule]:
        """Return the rules of the role that a binding in this namespace refers to. Raise `MissingRole` if it does not
        exist."""
        role = self._roles.get(_role_key(ref, namespace))
        if role is None:
            raise MissingRole(ref)
        return role.rules or []


def _role_key(ref: RoleRef, namespace: str) -> Key:
    return (namespace if ref.kind == "Role" else "", ref.name)


def _measure_grants(grants: Grants, limit: int) -> int:
    return grants.measure()


def subject_name(subject: Subject, namespace: str) -> str:
    """Return the key of a binding's subject, a user or a group; empty if it matches no user."""
    if subject.kind == "User":
        return f"u:{subject.name}"
    if subject.kind == "Group":
        return f"g:{subject.name}"
    namespace_of_account = subject.namespace or namespace
    return (
        f"u:system:serviceaccount:{namespace_of_account}:{subject.name}"
        if subject.kind == "ServiceAccount" and namespace_of_account
        else ""
    )


def _make_allow_result(name: str, namespace: str, ref: RoleRef, subject: Subject) -> AuthzResult:
    """Return the decision for requests that a binding allows to one of its subjects."""
    kind, whole = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    subject_text = f"{subject.name}/{subject.namespace}" if subject.kind == "ServiceAccount" else subject.name
    by = f"{kind} {gotext.quote(whole)} of {ref.kind} {gotext.quote(ref.name)}"
    return AuthzResult(AuthzDecision.ALLOW, f"RBAC: allowed by {by} to {subject.kind} {gotext.quote(subject_text)}")


class RbacAuthorizer:
    def __init__(self, *, index: RbacIndex, name: str = "rbac") -> None:
        self.name = name
        self._index = index

    def authorize(self, attributes: Attributes) -> AuthzResult:
        """Return the decision. Cluster role bindings apply in every namespace."""
        index, namespace = self._index, attributes.namespace
        result = index.grants(attributes.user, "").authorize(attributes)
        if result is None and namespace:
            result = index.grants(attributes.user, namespace).authorize(attributes)
        return result if result is not None else self._make_no_opinion(attributes)

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        grants = (self._index.grants(user, ""), self._index.grants(user, namespace))
        rules, errors = list[PolicyRule](), [error for grant in grants for error in grant.errors]
        word_budget = limits.RESOLVED_RULE_WORDS
        for rule in chain.from_iterable(grant.iterate_rules() for grant in grants):
            word_budget -= 1 + sum(map(len, (rule.verbs or (), rule.apiGroups, rule.resources, rule.resourceNames)))
            word_budget -= len(rule.nonResourceURLs)
            if word_budget < 0:
                return ResolvedRules(rules, [*errors, _TOO_MANY_RULES], is_complete=False)
            rules.append(rule)
        return ResolvedRules(rules, errors)

    def _make_no_opinion(self, attributes: Attributes) -> AuthzResult:
        resolution_errors = self._resolution_errors(attributes)
        return AuthzResult(AuthzDecision.NO_OPINION, f"RBAC: {resolution_errors}") if resolution_errors else NO_OPINION

    def _resolution_errors(self, attributes: Attributes) -> str:
        resolution_errors = list(self._index.grants(attributes.user, "").errors)
        if attributes.namespace:
            resolution_errors += self._index.grants(attributes.user, attributes.namespace).errors
        messages = list(dict.fromkeys(resolution_errors))
        return f"[{', '.join(messages)}]" if len(messages) > 1 else "".join(messages)
