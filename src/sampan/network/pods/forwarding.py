"""Rules for other firewalls that drop forwarded packets, above all Docker's. Pure.

In nftables a drop in one chain cannot be overridden by an accept in another. If the iptables-nft table drops by policy
(`ip filter FORWARD`), two rules with Sampan's comment are appended to it, after the rules of others. Other chains that
drop are only reported in a warning, as only their owner knows which rules belong there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sampan.network.pods.names import mark_for, table_for

_FAMILIES = ("ip", "ip6")
_WAYS = ("iifname", "oifname")
RULES = len(_WAYS)
"""The number of rules in each chain."""


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
    """Yield the chains in `nft -j list chains` whose policy drops forwarded packets."""
    for entry in listing.get("nftables", ()):
        chain = entry.get("chain", {})
        if chain.get("hook") == "forward" and chain.get("policy") == "drop" and chain["table"] != table_for(bridge):
            yield Chain(chain["family"], chain["table"], chain["name"])


def has_firewalld(listing: Mapping[str, Any]) -> bool:
    """Whether firewalld is active. It rejects by rule, not by policy, unless the bridge is in a permissive zone."""
    return any(entry.get("chain", {}).get("table") == "firewalld" for entry in listing.get("nftables", ()))


def iptables_chains(listing: Mapping[str, Any]) -> Iterator[Chain]:
    for entry in listing.get("nftables", ()):
        if (chain := entry.get("chain")) is not None:
            candidate = Chain(chain["family"], chain["table"], chain["name"])
            if candidate.is_of_iptables:
                yield candidate


def marked(listing: Mapping[str, Any], bridge: str) -> list[int]:
    """Return the handles of Sampan's rules in the output of `nft -j -a list chain`."""
    rules = (entry["rule"] for entry in listing.get("nftables", ()) if "rule" in entry)
    return [rule["handle"] for rule in rules if rule.get("comment") == mark_for(bridge)]


def consent(chain: Chain, bridge: str) -> str:
    mark = mark_for(bridge)
    return "".join(f'add rule {chain} {direction} "{bridge}" counter accept comment "{mark}"\n' for direction in _WAYS)


def withdrawal(chain: Chain, handles: Iterable[int]) -> str:
    return "".join(f"delete rule {chain} handle {handle}\n" for handle in handles)


def legacy_rules(bridge: str) -> list[list[str]]:
    """Return the rules for legacy iptables, as arguments after -A, -C or -D."""
    mark = ["-m", "comment", "--comment", mark_for(bridge), "-j", "ACCEPT"]
    return [["FORWARD", "-i", bridge, *mark], ["FORWARD", "-o", bridge, *mark]]
