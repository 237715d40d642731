"""Rules for other firewalls that drop forwarded packets of services, above all those of Docker and ufw.

Traffic to a service that this node forwards to a pod of another node is dropped if the policy of a forward chain is
DROP: in nftables an accept in one table does not override a drop in another.

For the chain of iptables, rules with Sampan's comment are appended after the existing rules. The program `iptables`
appends them, because it does not understand rules that other programs put into its tables. For chains of other programs
a warning names the command that adds the rules, as only their owner knows which rules belong there. The pod network
does the same for traffic of the node's own pods.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.nft import NftError, list_rules
from sampan.network.pods.firewall import NftChain, dropping_chains, has_firewalld

log = logging.getLogger(__name__)

COMMENT = "sampan: services"
CHECK_PERIOD_S = 300.0
_PROGRAMS = {"ip": "iptables", "ip6": "ip6tables"}
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_TIMEOUT_S = 60


class ServiceForwardRules:
    """Keeps other firewalls from dropping forwarded traffic of services. All calls block, and must run in a thread of
    the node's namespace."""

    def __init__(self, *, masquerade_mark: int, cluster_cidrs: Sequence[str] = ()) -> None:
        """`masquerade_mark` is the bit of the packet mark that forwarded traffic of services has."""
        self._mark, self._cluster_cidrs = masquerade_mark, cluster_cidrs
        self._warned: set[str] = set()

    def ensure(self) -> None:
        """Add missing rules, and log a warning about rules that only the administrator can add."""
        try:
            chains = list_rules("chains")
        except NftError as error:
            self._warn(f"cannot check whether another firewall drops forwarded traffic of services: {error}")
            return
        for chain in dropping_chains(chains, ""):
            self._accept(chain)
        if has_firewalld(chains):
            sources = " ".join(f"--add-source={cidr}" for cidr in self._cluster_cidrs) or "--add-source=POD_CIDR"
            self._warn(f"firewalld runs here, and may drop traffic of services until: {firewalld_command(sources)}")

    def remove(self) -> None:
        for program in _PROGRAMS.values():
            for rule in accept_rules(self._mark):
                while _run(program, "-C", rule) == 0 and _run(program, "-D", rule) == 0:
                    pass

    def _accept(self, chain: NftChain) -> None:
        program = _PROGRAMS.get(chain.family, "")
        if not chain.is_of_iptables or shutil.which(program, path=_PATH) is None:
            commands = " && ".join(f"nft add rule {chain} {match} accept" for match in nft_matches(self._mark))
            self._warn(f"the policy of {chain} drops forwarded traffic of services until: {commands}")
            return
        missing = [rule for rule in accept_rules(self._mark) if _run(program, "-C", rule) != 0]
        for rule in missing:
            if _run(program, "-A", rule) != 0:
                self._warn(
                    f"the policy of {chain} drops forwarded traffic of services until: {program} -A {_text(rule)}"
                )
                return
        if missing:
            log.warning("added rules to %s, whose policy is DROP, to accept forwarded traffic of services", chain)

    def _warn(self, text: str) -> None:
        """Log each warning only once."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)


def accept_rules(mark: int) -> list[list[str]]:
    """Return the rules as arguments of iptables after -A, -C or -D.

    They are like those of KUBE-FORWARD in the iptables mode of the real kube-proxy: they accept packets that are about
    to be masqueraded, and packets of accepted connections.
    """
    comment = ["-m", "comment", "--comment", COMMENT, "-j", "ACCEPT"]
    return [
        ["FORWARD", "-m", "mark", "--mark", f"{mark:#x}/{mark:#x}", *comment],
        ["FORWARD", "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", *comment],
    ]


def nft_matches(mark: int) -> list[str]:
    return [f"meta mark and {mark:#x} == {mark:#x}", "ct state established,related"]


def firewalld_command(sources: str) -> str:
    return f"firewall-cmd --permanent --zone=trusted {sources} && firewall-cmd --reload"


def _text(rule: Iterable[str]) -> str:
    return " ".join(f"'{word}'" if " " in word else word for word in rule)


def _run(name: str, action: str, rule: Sequence[str]) -> int:
    """Run iptables, and return its exit code."""
    program = shutil.which(name, path=_PATH)
    if program is None:
        return 127
    try:
        done = subprocess.run([program, "-w", "5", action, *rule], capture_output=True, check=False, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return 126
    return done.returncode


async def keep_forward_rules(
    rules: ServiceForwardRules, namespace: NetworkNamespace, clock: Clock, *, removes_rules: bool
) -> None:
    """Check the rules at the start and periodically until cancelled.

    Restarting another firewall removes rules that it does not know. With `removes_rules` the rules are removed at the
    end.
    """
    executor: ThreadPoolExecutor = namespace.executor("service-firewall")
    loop = asyncio.get_running_loop()
    try:
        while True:
            await loop.run_in_executor(executor, rules.ensure)
            await clock.sleep(CHECK_PERIOD_S)
    finally:
        if removes_rules:  # the removal is complete before this returns, as the process may exit at once
            await asyncio.shield(loop.run_in_executor(executor, rules.remove))
        executor.shutdown(wait=False)
