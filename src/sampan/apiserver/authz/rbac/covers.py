"""Whether some rules allow all that others do; what is missing, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sampan.api import gotext
from sampan.api.types.rbac_v1 import PolicyRule

ALL = "*"


def missing(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The parts of the wanted rules that none of those held allows, each with a single verb on a single thing."""
    return [part for rule in wanted for part in parts(rule) if not any(_covers(own, part) for own in held)]


def parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    for group in rule.apiGroups:
        for resource in rule.resources:
            for verb in rule.verbs or ():
                for names in [[name] for name in rule.resourceNames] or [[]]:
                    yield PolicyRule(verbs=[verb], apiGroups=[group], resources=[resource], resourceNames=names)
    for url in rule.nonResourceURLs:
        for verb in rule.verbs or ():
            yield PolicyRule(verbs=[verb], nonResourceURLs=[url])


def _covers(own: PolicyRule, part: PolicyRule) -> bool:
    if not _has(own.verbs or (), part.verbs or ()):
        return False
    if part.nonResourceURLs:
        return any(_covers_url(url, part.nonResourceURLs[0]) for url in own.nonResourceURLs)
    resource = part.resources[0]
    star = f"*/{resource.partition('/')[2]}" if "/" in resource else resource
    return (
        _has(own.apiGroups, part.apiGroups)
        and (_has(own.resources, part.resources) or star in own.resources)
        and (not own.resourceNames or (bool(part.resourceNames) and part.resourceNames[0] in own.resourceNames))
    )


def _has(own: Sequence[str], wanted: Sequence[str]) -> bool:
    return ALL in own or all(word in own for word in wanted)


def _covers_url(own: str, wanted: str) -> bool:
    return own == wanted or (own.endswith(ALL) and wanted.startswith(own.rstrip(ALL)))


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Rules of one thing each, put together where only their verbs differ."""
    found: dict[tuple[str, ...], PolicyRule] = {}
    others = []
    for rule in rules:
        if rule.nonResourceURLs:
            others.append(rule)
            continue
        key = (rule.apiGroups[0], rule.resources[0], *rule.resourceNames)
        known = found.setdefault(key, rule)
        if known is not rule:
            found[key] = PolicyRule(
                verbs=[*(known.verbs or ()), *(rule.verbs or ())],
                apiGroups=rule.apiGroups,
                resources=rule.resources,
                resourceNames=rule.resourceNames,
            )
    return [*others, *found.values()]


def described(rule: PolicyRule) -> str:
    """As the real server tells it: {APIGroups:[""], Resources:["pods"], Verbs:["get"]}."""
    lists = (
        ("APIGroups", rule.apiGroups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.nonResourceURLs),
        ("ResourceNames", rule.resourceNames),
        ("Verbs", rule.verbs or ()),
    )
    return "{" + ", ".join(f"{name}:{quoted(words)}" for name, words in lists if words) + "}"


def quoted(words: Iterable[str]) -> str:
    """As Go prints a list of quoted strings."""
    return "[" + " ".join(map(gotext.quote, words)) + "]"


__all__ = ["compact", "described", "missing", "parts", "quoted"]
