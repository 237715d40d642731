"""A table that applies the operations of transactions to the packet model instead of the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from sampan.network.proxy.nftables.compiler import ElementKey, ServiceCompiler
from sampan.network.proxy.nftables.layout import (
    BASE_CHAINS,
    LASTING,
    NODEPORT_IPS,
    SETS,
    SETS_BY_NAME,
    base_rules,
    static_rules,
)
from sampan.network.proxy.nftables.operations import (
    AddBaseChain,
    AddChain,
    AddElements,
    AddNamedSet,
    AddRule,
    AddTable,
    DeleteChain,
    Operation,
)
from sampan.network.proxy.nftables.table_state import TableState
from sampan.network.proxy.tracker import ServiceChange
from tests.network.proxy.nftables.packet_model import Model


class RecordedTable:
    """A table in the packet model, which checks that all chains and sets that a transaction refers to exist."""

    def __init__(self, compiler: ServiceCompiler) -> None:
        self._state = TableState(compiler)
        self._model = Model()
        self._model.apply(static_operations(compiler))

    def sync(self, changes: Iterable[ServiceChange]) -> list[Operation]:
        update = self._state.update({change.service: change.current for change in changes})
        operations = [operation for _, operation in update.operations]
        self._model.apply(operations)
        self._model.apply([DeleteChain(name) for name in update.stale_chains])
        self._state.accept(update)
        return operations

    @property
    def content(self) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
        return self._model.chains, self._model.sets

    def model(self, local_addresses: frozenset[str]) -> Model:
        model = deepcopy(self._model)
        model.local_addresses = local_addresses
        return model


def static_operations(compiler: ServiceCompiler) -> list[Operation]:
    """Return the operations that create the table without services."""
    rules = static_rules(compiler.family, compiler.config, compiler.facts)
    addresses = [(ElementKey(NODEPORT_IPS, (address,)), "") for address in compiler.facts.node_port_ips or ()]
    return [
        AddTable(LASTING),
        *(AddNamedSet(named) for named in SETS),
        *(AddBaseChain(chain) for chain in BASE_CHAINS),
        *(AddChain(name) for name in rules),
        *(AddRule(chain.name, rule) for chain in BASE_CHAINS for rule in base_rules(chain.name)),
        *(AddRule(name, rule) for name, entries in rules.items() for rule in entries),
        AddElements(SETS_BY_NAME[NODEPORT_IPS], addresses),
    ]
