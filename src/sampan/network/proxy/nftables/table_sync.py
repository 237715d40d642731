"""Keeps the table of one IP family in step with services and node. Runs in the thread of the node's namespace."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.nftables.compiler import ServiceCompiler
from sampan.network.proxy.nftables.families import FAMILIES_BY_NAME
from sampan.network.proxy.nftables.layout import TABLE
from sampan.network.proxy.nftables.proxy_table import ProxyTable, RefusedServices, RulesetGeneration
from sampan.network.proxy.nftables.table_state import ServiceStates
from sampan.network.proxy.proxy_config import NodeFacts, ProxyConfig

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SyncResult:
    """Whether a sync of the packet rules was full, and which services the kernel refused."""

    is_full: bool
    refused: RefusedServices = field(default_factory=dict)


class TableSync:
    """The table of one IP family. `monotonic` returns the current time in seconds."""

    def __init__(
        self, *, family: str, config: ProxyConfig, generation: RulesetGeneration, monotonic: Callable[[], float]
    ) -> None:
        self.family = family
        self._config, self._generation, self._monotonic = config, generation, monotonic
        self._facts: NodeFacts | None = None
        """The facts about the node as of the last sync. None means that the table must be written as a whole."""
        self._table: ProxyTable | None = None
        self._refused: set[NamespacedName] = set()

    def _compiler(self, facts: NodeFacts) -> ServiceCompiler:
        return ServiceCompiler(FAMILIES_BY_NAME[self.family], self._config, facts)

    def _open(self, facts: NodeFacts) -> ProxyTable:
        if self._table is None:
            self._table = ProxyTable(
                compiler=self._compiler(facts), generation=self._generation, monotonic=self._monotonic
            )
        return self._table

    def sync(self, facts: NodeFacts, services: ServiceStates, changed: frozenset[NamespacedName]) -> SyncResult:
        """Write the changed services, or the whole table if it is new or damaged, or if the node changed in a way that
        all services depend on.

        Services that the kernel refused are tried again.
        """
        table, previous = self._open(facts), self._facts
        self._facts = None  # until the sync has succeeded
        if previous is None or _service_facts(previous) != _service_facts(facts):
            result = SyncResult(is_full=True, refused=table.rebuild(self._compiler(facts), services))
            if len(services) > 1000:
                log.info("wrote the nftables table %s with %d services", self._name, len(services))
        else:
            if previous != facts:
                table.update_static_rules(self._compiler(facts))
            states = {service: services.get(service, ()) for service in changed | self._refused}
            result = SyncResult(is_full=False, refused=table.apply(states))
        self._facts, self._refused = facts, set(result.refused)
        return result

    def check(self) -> bool:
        """Delete stale chains, and return whether the table is complete."""
        if self._table is None or self._facts is None:
            return False
        if self._table.has_stale_chains:
            self._table.delete_stale_chains()
        if self._table.is_complete():
            return True
        log.warning("another program changed the nftables table %s; writing it again", self._name)
        self._facts = None
        return False

    def delete_stale_chains(self) -> None:
        if self._table is not None and self._table.has_stale_chains:
            self._table.delete_stale_chains()

    def detect_foreign_change(self) -> bool:
        """Return whether any rules of the network namespace were changed by another program since the last call."""
        return self._table is not None and self._table.detect_foreign_change()

    def audit(self) -> bool:
        """Compare the whole table with the kernel, and return whether it is the same."""
        if self._table is None or self._facts is None:
            return False
        differences = self._table.audit()
        if not differences:
            return True
        log.warning(
            "the nftables table %s differs from what kube-proxy wrote; writing it again: %s",
            self._name,
            ", ".join(differences[:10]),
        )
        self._facts = None
        return False

    def remove(self) -> None:
        """Remove the table."""
        self._open(NodeFacts()).remove()
        self._facts = None

    def close(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None

    @property
    def _name(self) -> str:
        return f"{FAMILIES_BY_NAME[self.family].nft} {TABLE}"


def _service_facts(facts: NodeFacts) -> NodeFacts:
    """Return the facts that the chains of services depend on."""
    return replace(facts, node_port_ips=None, service_cidrs=())


def remove_tables(*, only_temporary: bool = False) -> None:
    """Remove the tables of kube-proxy from the network namespace of this thread: all of them, or only those that should
    have ended with their proxy."""
    config = ProxyConfig(removes_rules=only_temporary)
    for family in FAMILIES_BY_NAME:
        sync = TableSync(family=family, config=config, generation=RulesetGeneration(), monotonic=lambda: 0.0)
        try:
            sync.remove()
        finally:
            sync.close()
