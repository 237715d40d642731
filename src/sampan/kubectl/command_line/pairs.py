"""Words of the form KEY=VALUE and KEY- after the resources of a command line (`cmd/util.GetResourcesAndPairs`)."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.values import quantity
from sampan.kubectl.errors import KubectlError


def split_pairs(words: Sequence[str], pair_name: str) -> tuple[list[str], list[str]]:
    """Return the resources and the pairs. `pair_name` names the pairs in errors: label, annotation, image."""
    resources: list[str] = []
    pairs: list[str] = []
    for word in words:
        if ("=" in word and word[0] != "=") or (word.endswith("-") and word != "-"):
            pairs.append(word)
        elif pairs:
            raise KubectlError(f"all resources must be specified before {pair_name} changes: {word}")
        else:
            resources.append(word)
    return resources, pairs


def parse_pairs(pairs: Sequence[str], pair_name: str, *, allows_removal: bool) -> tuple[dict[str, str], list[str]]:
    """Return the values by key, and the keys of KEY-."""
    values: dict[str, str] = {}
    removed: list[str] = []
    invalid: list[str] = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if equals and key:
            values[key] = value
        elif allows_removal and pair.endswith("-") and pair != "-":
            removed.append(pair[:-1])
        else:
            invalid.append(pair)
    if invalid:
        raise KubectlError(f"invalid {pair_name} format: {', '.join(invalid)}")
    return values, removed


def parse_amounts(text: str, *, error: str = "invalid argument syntax") -> dict[str, str]:
    """Parse RESOURCE=AMOUNT,RESOURCE=AMOUNT. Commands differ in the beginning of the error of a wrong pair."""
    amounts: dict[str, str] = {}
    for statement in text.split(","):
        if statement.count("=") != 1:
            raise KubectlError(f"{error} {statement}, expected <resource>=<value>")
        resource, _, amount = statement.partition("=")
        try:
            amounts[resource] = quantity.canonical(amount)
        except ValueError as failure:
            raise KubectlError(str(failure)) from None
    return amounts
