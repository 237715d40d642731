"""Rules that make other firewalls with a DROP policy forward the traffic of pods, and their removal."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sampan.network.pods import forwarding
from sampan.network.pods.nft import listed, run_nft

log = logging.getLogger(__name__)

_LEGACY = {
    "iptables-legacy": Path("/proc/thread-self/net/ip_tables_names"),
    "ip6tables-legacy": Path("/proc/thread-self/net/ip6_tables_names"),
}
"""The legacy iptables programs, and the files in which the kernel lists their tables in use."""


class Consent:
    def __init__(self, bridge: str) -> None:
        self._bridge = bridge
        self._warned: set[str] = set()

    def ensure(self, chains: Mapping[str, Any]) -> None:
        """Add missing rules. `chains` is the output of `nft -j list chains`."""
        for chain in forwarding.refusing(chains, self._bridge):
            if chain.is_of_iptables:
                self._consent(chain)
            else:
                self._warn(f"the packet rules of {chain} drop what they do not know, perhaps packets of pods too")
        if forwarding.has_firewalld(chains):
            command = f"firewall-cmd --zone=trusted --add-interface={self._bridge}"
            self._warn(f"firewalld runs here, and lets pods through only after: {command}")
        self._legacy("-C", "-A")

    def withdraw(self) -> None:
        for chain in forwarding.iptables_chains(listed("chains")):
            handles = forwarding.marked(listed("chain", *chain), self._bridge)
            if handles:
                run_nft("-f", "-", text=forwarding.withdrawal(chain, handles))
        self._legacy("-C", "-D", when=0)

    def _consent(self, chain: forwarding.Chain) -> None:
        handles = forwarding.marked(listed("chain", *chain), self._bridge)
        if len(handles) != forwarding.RULES:
            text = forwarding.withdrawal(chain, handles) + forwarding.consent(chain, self._bridge)
            run_nft("-f", "-", text=text)
            log.warning("added rules to %s, whose policy is DROP, to accept traffic of bridge %s", chain, self._bridge)

    def _warn(self, text: str) -> None:
        """Log each warning only once."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)

    def _legacy(self, check: str, change: str, *, when: int = 1) -> None:
        """Make the change to each rule for which the check exits with `when` (0: the rule exists)."""
        for name, tables in _LEGACY.items():
            program = shutil.which(name)
            if program is None or not _is_in_use(tables):
                continue
            for rule in forwarding.legacy_rules(self._bridge):
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
