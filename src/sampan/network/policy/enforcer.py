"""Commits the compiled table to the kernel, one atomic transaction for all pending changes, and audits it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.nft import NftError, list_rules, run_nft
from sampan.network.policy.compiler import PolicyCompiler, PolicyConfig
from sampan.network.policy.policy_table import PolicyTable

log = logging.getLogger(__name__)

T = TypeVar("T")


class PolicyEnforcer:
    """Applies the policies of one node. `compiler` may be changed at any time; `commit` makes changes effective.

    Until `start` the compiler may lack pods and policies. A table that an earlier process has left therefore stays as
    it is; only new sandboxes are added to it, isolated.
    """

    def __init__(self, *, config: PolicyConfig, namespace: NetworkNamespace, clock: Clock) -> None:
        self.compiler = PolicyCompiler(config)
        self._config, self._clock = config, clock
        self._thread: ThreadPoolExecutor = namespace.executor("network-policy")
        self._lock = asyncio.Lock()
        """Held during a transaction, so that transactions have the order of the changes."""
        self._is_started = False
        self._needs_rewrite = True
        """Whether the content of the table in the kernel is unknown, so that it must be rewritten as a whole."""

    async def start(self) -> None:
        """Enforce the policies that the compiler has, in place of those of an earlier process."""
        self._is_started = True
        await self.commit()

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        """Make the policies of a sandbox effective; until its pod is known, drop all of its traffic."""
        self.compiler.attach(uid, addresses)
        if self._is_started:
            await self.commit()
        else:
            await self._isolate_early(uid, addresses)

    async def _isolate_early(self, uid: str, addresses: Sequence[str]) -> None:
        single = PolicyCompiler(self._config)
        single.attach(uid, addresses)
        async with self._lock:
            if not self._is_started:
                return await self._write(single.table.additions())
        await self.commit()

    async def release(self, uid: str) -> None:
        """Delete the elements of a sandbox. Until `start` the table of an earlier process keeps them."""
        self.compiler.detach(uid)
        if self._is_started:
            await self.commit()

    async def commit(self) -> None:
        """Commit all pending changes, and return when they are effective. Raise NftError if that fails; the next call
        tries again."""
        async with self._lock:
            table = self.compiler.table
            if not self._needs_rewrite:
                if not (text := table.changes(self._clock.monotonic())):
                    return
                try:
                    return await self._write(text)
                except NftError as error:
                    log.warning("rewriting the rules of network policies: %s", error)
            self._needs_rewrite = True
            await self._rewrite()
            self._needs_rewrite = False

    async def _rewrite(self) -> None:
        """Replace the table. A policy that nft rejects gets an empty chain, which allows nothing: the other policies
        stay in effect."""
        table = self.compiler.table
        try:
            return await self._write(table.render_replacement())
        except NftError as error:
            policies = self.compiler.policy_chains()
            if not policies or not await self._is_accepted(table.render_replacement(policies)):
                raise
            rejected = await self._find_rejected(list(policies), set(policies))
            for name in rejected:
                log.error("network policy %s is not enforced, and allows no traffic: %s", policies[name], error)
            await self._write(table.render_replacement(rejected))

    async def _find_rejected(self, names: list[str], policies: set[str]) -> set[str]:
        """Return those of the policy chains that nft does not accept, by bisection."""
        if await self._is_accepted(self.compiler.table.render_replacement(policies - set(names))):
            return set()
        if len(names) == 1:
            return set(names)
        half = len(names) // 2
        return await self._find_rejected(names[:half], policies) | await self._find_rejected(names[half:], policies)

    async def _is_accepted(self, text: str) -> bool:
        """Whether the kernel would accept a transaction."""
        try:
            await self._run(lambda: run_nft("-c", "-f", "-", text=text))
        except NftError:
            return False
        return True

    async def audit(self) -> None:
        """Restore the table if another program has changed it. Raise NftError."""
        async with self._lock:
            table = self.compiler.table
            if self._needs_rewrite or table.is_changed or not table.chains:
                return
            try:
                error = table_error(await self._run(lambda: list_rules("table", "inet", table.name)), table)
            except NftError as failure:
                error = str(failure)
            if not error or table.is_changed:
                return
            log.warning("restoring the rules of network policies: %s", error)
            self._needs_rewrite = True
        await self.commit()

    async def remove_all(self) -> None:
        """Remove the table, for a node that is removed."""
        async with self._lock:
            self._is_started, self._needs_rewrite = False, True
            await self._write(self.compiler.table.removal())

    def close(self) -> None:
        self._thread.shutdown()

    async def _write(self, text: str) -> None:
        await self._run(lambda: run_nft("-f", "-", text=text))

    async def _run(self, call: Callable[[], T]) -> T:
        """Run a function in the network namespace of the node. A transaction that has begun is not interrupted."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, call))


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
    """Return key and value of an element of the kernel's listing in the form of a PolicyTable."""
    if isinstance(item, list):
        key, action = item
        verb, target = next(iter(action.items()))
        return str(key), f"{verb} {target['target']}" if target else verb
    if isinstance(item, dict):
        return " . ".join(map(str, item["concat"])), ""
    return str(item), ""
