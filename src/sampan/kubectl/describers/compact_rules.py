"""RBAC rules as kubectl shows them: one resource per rule, with verbs merged (`kubectl/pkg/util/rbac`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, product
from typing import Any

Rule = Mapping[str, Any]


def compact_rules(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Split rules into one for each resource or URL, merge the verbs of those that differ only in verbs, and sort
    them. Rules with resource names stay separate."""
    merged: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}
    compact: list[dict[str, Any]] = []
    for rule in chain.from_iterable(_simple_rules(rule) for rule in rules):
        group, resource = (rule["apiGroups"] or [""])[0], (rule["resources"] or [""])[0]
        if not rule["resources"] or rule["nonResourceURLs"]:
            compact.append(rule)
            continue
        key = (group, resource, tuple(rule["resourceNames"]))
        if key not in merged:
            merged[key] = rule
            compact.append(rule)
        elif rule["verbs"][0] not in merged[key]["verbs"]:
            merged[key]["verbs"] += rule["verbs"]
    return sorted(compact, key=_sort_text)


def _simple_rules(rule: Rule) -> Iterable[dict[str, Any]]:
    verbs = list(rule.get("verbs") or ())
    for group, resource, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), verbs):
        names = [[name] for name in rule.get("resourceNames") or ()] or [[]]
        for resource_names in names:
            yield {
                "apiGroups": [group],
                "resources": [resource],
                "resourceNames": resource_names,
                "nonResourceURLs": [],
                "verbs": [verb],
            }
    for url, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield {"apiGroups": [], "resources": [], "resourceNames": [], "nonResourceURLs": [url], "verbs": [verb]}


def _sort_text(rule: Rule) -> str:
    """Return the text that Go prints for a rule, by which kubectl sorts."""
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return "".join(f"{field}:[{' '.join(rule[field])}]," for field in fields)


def resource_text(rule: Rule) -> str:
    """Return `deployments.apps/scale` for the resource of a compact rule."""
    if not rule["resources"]:
        return ""
    resource, slash, subresource = rule["resources"][0].partition("/")
    group = rule["apiGroups"][0] if rule["apiGroups"] else ""
    return f"{resource}{'.' if group else ''}{group}{slash}{subresource}"
