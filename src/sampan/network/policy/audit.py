"""Compare the table in the kernel with the desired one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sampan.network.policy.table import PolicyTable


def table_error(listing: Mapping[str, Any], table: PolicyTable) -> str:
    """Return how the JSON listing of a table differs from the desired content, or an empty string.

    Rules are counted, and the elements of interval sets too: other programs flush or delete a table, none rewrites it.
    """
    entries = listing["nftables"]
    rules = Counter(entry["rule"]["chain"] for entry in entries if "rule" in entry)
    chains = {entry["chain"]["name"] for entry in entries if "chain" in entry}
    sets = {item["name"]: item.get("elem", []) for entry in entries for item in _sets(entry)}
    for name, chain in table.chains.items():
        if name not in chains or rules[name] != len(chain.rules):
            return f"chain {name} was changed"
    for name, elements in table.elements.items():
        if name not in sets or len(sets[name]) != len(elements):
            return f"set {name} was changed"
        if "interval" not in table.sets[name] and dict(map(_element, sets[name])) != elements:
            return f"elements of set {name} were changed"
    return ""


def _sets(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry[kind] for kind in ("set", "map") if kind in entry]


def _element(item: Any) -> tuple[str, str]:
    """Return key and value of an element as the table has them."""
    if isinstance(item, list):
        key, action = item
        verb, target = next(iter(action.items()))
        return str(key), f"{verb} {target['target']}" if target else verb
    if isinstance(item, dict):
        return " . ".join(map(str, item["concat"])), ""
    return str(item), ""
