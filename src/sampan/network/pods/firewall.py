"""Rules for other firewalls that drop forwarded packets, above all Docker's.

In nftables a drop in one chain cannot be overridden by an accept in another. If the iptables-nft table drops by policy
(`ip filter FORWARD`), two rules with Sampan's comment are appended to it, after the rules of others. Other chains that
drop are only reported in a warning, as only their owner knows which rules belong there.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sampan.network.pods.config import mark_for, table_for
from sampan.network.pods.nft import list_rules, run_nft

_FAMILIES = ("ip", "ip6")
_DIRECTIONS = ("iifname", "oifname")
RULES = len(_DIRECTIONS)
"""The number of rules that Sampan adds to each chain."""


class NftChain(NamedTuple):
    family: str
    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.family} {self.table} {self.name}"

    @property
    def is_of_iptables(self) -> bool:
        return self.family in _FAMILIES and (self.table, self.name) == ("filter", "FORWARD")


def dropping_chains(listing: Mapping[str, Any], bridge: str) -> Iterator[NftChain]:
    """Yield the chains in `nft -j list chains` whose policy drops forwarded packets."""
    for entry in listing.get("nftables", ()):
        chain = entry.get("chain", {})
        if chain.get("hook") == "forward" and chain.get("policy") == "drop" and chain["table"] != table_for(bridge):
            yield NftChain(chain["family"], chain["table"], chain["name"])


def has_firewalld(listing: Mapping[str, Any]) -> bool:
    """Whether firewalld is active. It rejects by rule, not by policy, unless the bridge is in a permissive zone."""
    return any(entry.get("chain", {}).get("table") == "firewalld" for entry in listing.get("nftables", ()))


def iptables_chains(listing: Mapping[str, Any]) -> Iterator[NftChain]:
    for entry in listing.get("nftables", ()):
        if (chain := entry.get("chain")) is not None:
            candidate = NftChain(chain["family"], chain["table"], chain["name"])
            if candidate.is_of_iptables:
                yield candidate


def find_rule_handles(listing: Mapping[str, Any], bridge: str) -> list[int]:
    """Return the handles of Sampan's rules in the output of `nft -j -a list chain`."""
    rules = (entry["rule"] for entry in listing.get("nftables", ()) if "rule" in entry)
    return [rule["handle"] for rule in rules if rule.get("comment") == mark_for(bridge)]


def accept_rules(chain: NftChain, bridge: str) -> str:
    mark = mark_for(bridge)
    return "".join(
        f'add rule {chain} {direction} "{bridge}" counter accept comment "{mark}"\n' for direction in _DIRECTIONS
    )


def deletions(chain: NftChain, handles: Iterable[int]) -> str:
    return "".join(f"delete rule {chain} handle {handle}\n" for handle in handles)


def legacy_rules(bridge: str) -> list[list[str]]:
    """Return the rules for legacy iptables, as arguments after -A, -C or -D."""
    mark = ["-m", "comment", "--comment", mark_for(bridge), "-j", "ACCEPT"]
    return [["FORWARD", "-i", bridge, *mark], ["FORWARD", "-o", bridge, *mark]]


log = logging.getLogger(__name__)

_LEGACY = {
    "iptables-legacy": Path("/proc/thread-self/net/ip_tables_names"),
    "ip6tables-legacy": Path("/proc/thread-self/net/ip6_tables_names"),
}
"""The legacy iptables programs, and the files in which the kernel lists their tables in use."""


class ForwardRules:
    def __init__(self, bridge: str) -> None:
        self._bridge = bridge
        self._warned: set[str] = set()

    def ensure(self, chains: Mapping[str, Any]) -> None:
        """Add missing rules. `chains` is the output of `nft -j list chains`."""
        for chain in dropping_chains(chains, self._bridge):
            if chain.is_of_iptables:
                self._accept(chain)
            else:
                self._warn(f"nftables chain {chain} drops packets by default, possibly also packets of pods")
        if has_firewalld(chains):
            command = f"firewall-cmd --zone=trusted --add-interface={self._bridge}"
            self._warn(f"firewalld is running and blocks traffic of pods; to allow it, run: {command}")
        self._change_legacy("-C", "-A")

    def remove(self) -> None:
        for chain in iptables_chains(list_rules("chains")):
            handles = find_rule_handles(list_rules("chain", *chain), self._bridge)
            if handles:
                run_nft("-f", "-", text=deletions(chain, handles))
        self._change_legacy("-C", "-D", when=0)

    def _accept(self, chain: NftChain) -> None:
        handles = find_rule_handles(list_rules("chain", *chain), self._bridge)
        if len(handles) != RULES:
            text = deletions(chain, handles) + accept_rules(chain, self._bridge)
            run_nft("-f", "-", text=text)
            log.warning("added rules to %s, whose policy is DROP, to accept traffic of bridge %s", chain, self._bridge)

    def _warn(self, text: str) -> None:
        """Log each warning only once."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)

    def _change_legacy(self, check: str, change: str, *, when: int = 1) -> None:
        """Make the change to each rule for which the check exits with `when` (0: the rule exists)."""
        for name, tables in _LEGACY.items():
            program = shutil.which(name)
            if program is None or not _is_in_use(tables):
                continue
            for rule in legacy_rules(self._bridge):
                if _run(program, check, rule) == when:
                    _run(program, change, rule)


def _is_in_use(tables: Path) -> bool:
    try:
        return "filter" in tables.read_text().split()
    except OSError:
        return False


def _run(program: str, action: str, rule: list[str]) -> int:
    done = subprocess.run([program, "-w", "5", action, *rule], capture_output=True, check=False, timeout=60)
    return done.returncode
