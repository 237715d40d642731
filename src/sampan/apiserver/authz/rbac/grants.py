"""The rules of one user in one scope, indexed so that a decision takes a few look-ups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import Decision

ALL = "*"


@dataclass(frozen=True, slots=True)
class _Grant:
    verbs: frozenset[str] | None
    """The verbs; None matches all."""
    groups: frozenset[str] | None
    """The API groups; None matches all."""
    names: frozenset[str]
    """The resource names; empty matches all."""
    decision: Decision

    def holds_verb(self, verb: str) -> bool:
        return self.verbs is None or verb in self.verbs


@dataclass(slots=True)
class Grants:
    rules: list[PolicyRule] = field(default_factory=list)
    """All rules, in the order of their bindings."""
    faults: list[str] = field(default_factory=list)
    """Errors for bindings to roles that do not exist."""
    _by_resource: dict[str, list[_Grant]] = field(default_factory=dict)
    """Grants by resource alone: a rule with many groups and resources has only one entry per resource."""
    _by_path: dict[str, list[_Grant]] = field(default_factory=dict)
    _by_prefix: list[tuple[str, _Grant]] = field(default_factory=list)

    def add(self, rules: Iterable[PolicyRule], decision: Decision) -> None:
        """Add rules; `decision` is returned for requests that they allow."""
        for rule in rules:
            self.rules.append(rule)
            verbs, groups = _words(rule.verbs or ()), _words(rule.apiGroups)
            grant = _Grant(verbs, groups, frozenset(rule.resourceNames), decision)
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

    def decide(self, asked: Attributes) -> Decision | None:
        """Return the decision, or None if no rule allows the request."""
        return self._for_resource(asked) if asked.is_resource else self._for_path(asked)

    def _for_resource(self, asked: Attributes) -> Decision | None:
        group, verb, name = asked.group, asked.verb, asked.name
        resources = [asked.whole_resource, ALL]
        if asked.subresource:
            resources.append(f"*/{asked.subresource}")
        for resource in resources:
            for grant in self._by_resource.get(resource, ()):
                if (
                    (grant.verbs is None or verb in grant.verbs)
                    and (grant.groups is None or group in grant.groups)
                    and (not grant.names or name in grant.names)
                ):
                    return grant.decision
        return None

    def _for_path(self, asked: Attributes) -> Decision | None:
        verb, path = asked.verb, asked.path
        for grant in self._by_path.get(path, ()):
            if grant.holds_verb(verb):
                return grant.decision
        for prefix, grant in self._by_prefix:
            if path.startswith(prefix) and grant.holds_verb(verb):
                return grant.decision
        return None


def _words(words: Iterable[str]) -> frozenset[str] | None:
    word_set = frozenset(words)
    return None if ALL in word_set else word_set
