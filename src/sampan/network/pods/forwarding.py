"""Other firewalls that refuse to forward, Docker's above all: what to add to them so that pods are let through.

In nftables one chain's refusal cannot be undone by another's consent. Where the table that iptables keeps in nftables
refuses by policy (`ip filter FORWARD`), two rules with our mark are put at its end, behind what others said there;
chains of another kind are named in a warning, as only their owner knows what belongs into them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sampan.network.pods.names import mark_for, table_for

_FAMILIES = ("ip", "ip6")
_WAYS = ("iifname", "oifname")
RULES = len(_WAYS)
"""In each chain."""


class Chain(NamedTuple):
    family: str
    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.family} {self.table} {self.name}"

    @property
    def is_of_iptables(self) -> bool:
        return self.family in _FAMILIES and (self.table, self.name) == ("filter", "FORWARD")


def refusing(listing: Mapping[str, Any], bridge: str) -> Iterator[Chain]:
    """From `nft -j list chains`: chains that refuse to forward what they have no rule for."""
    for entry in listing.get("nftables", ()):
        chain = entry.get("chain", {})
        if chain.get("hook") == "forward" and chain.get("policy") == "drop" and chain["table"] != table_for(bridge):
            yield Chain(chain["family"], chain["table"], chain["name"])


def has_firewalld(listing: Mapping[str, Any]) -> bool:
    """It refuses by a rule, not by policy, unless the bridge is in a zone that lets it through."""
    return any(entry.get("chain", {}).get("table") == "firewalld" for entry in listing.get("nftables", ()))


def iptables_chains(listing: Mapping[str, Any]) -> Iterator[Chain]:
    for entry in listing.get("nftables", ()):
        if (chain := entry.get("chain")) is not None:
            found = Chain(chain["family"], chain["table"], chain["name"])
            if found.is_of_iptables:
                yield found


def marked(listing: Mapping[str, Any], bridge: str) -> list[int]:
    """From `nft -j -a list chain`: the handles of our rules there."""
    rules = (entry["rule"] for entry in listing.get("nftables", ()) if "rule" in entry)
    return [rule["handle"] for rule in rules if rule.get("comment") == mark_for(bridge)]


def consent(chain: Chain, bridge: str) -> str:
    mark = mark_for(bridge)
    return "".join(f'add rule {chain} {way} "{bridge}" counter accept comment "{mark}"\n' for way in _WAYS)


def withdrawal(chain: Chain, handles: Iterable[int]) -> str:
    return "".join(f"delete rule {chain} handle {handle}\n" for handle in handles)


def legacy_rules(bridge: str) -> list[list[str]]:
    """The same for iptables that keeps its rules outside nftables: arguments after -A, -C or -D."""
    mark = ["-m", "comment", "--comment", mark_for(bridge), "-j", "ACCEPT"]
    return [["FORWARD", "-i", bridge, *mark], ["FORWARD", "-o", bridge, *mark]]


__all__ = [
    "RULES",
    "Chain",
    "consent",
    "has_firewalld",
    "iptables_chains",
    "legacy_rules",
    "marked",
    "refusing",
    "withdrawal",
]
