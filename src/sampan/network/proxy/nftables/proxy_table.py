"""Writes the table of one IP family: the whole table at the start and after damage, and otherwise the changes.

Everything here runs in the thread of the node's network namespace. A commit is atomic: packets see the rules before it
or after it. A service that the kernel refuses is left out and reported, and the others are written.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import iterate_attributes, read_attributes, read_text, text_attribute
from sampan.host.netlink.nftables import NftSocket, TransactionFailed
from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.nftables.compiler import ElementKey, ServiceCompiler
from sampan.network.proxy.nftables.layout import (
    AFFINITY_PREFIX,
    BASE_CHAINS,
    LASTING,
    NODEPORT_IPS,
    SETS,
    SETS_BY_NAME,
    TABLE,
    TEMPORARY,
    base_rules,
    is_service_chain,
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
    DeleteSet,
    DeleteTable,
    FlushChain,
    FlushNamedSet,
    Operation,
    OperationEncoder,
    elements_by_set,
)
from sampan.network.proxy.nftables.table_state import Owned, ServiceStates, TableState, UnusableService

log = logging.getLogger(__name__)

CHUNK = 500
"""The number of services whose chains are written in one transaction of a full sync."""
STALE_S = 1.0
"""Seconds for which a chain outlives its last reference. Kernels before 6.2 count a deleted map element a little
longer."""

T = TypeVar("T")
_TABLE_ATTRIBUTE = text_attribute(nl.NFTA_TABLE_NAME, TABLE)
"""The table in requests: NFTA_CHAIN_TABLE, NFTA_RULE_TABLE and NFTA_SET_TABLE are the same number."""
_TABLE_NAME = TABLE.encode() + b"\0"


class ForeignTable(Exception):
    """The table belongs to another kube-proxy, and must not be changed."""


RefusedServices = dict[NamespacedName, str]
"""Services that the kernel refused, and the reasons."""


class RulesetGeneration:
    """The number of transactions of the network namespace that this process expects. Another number means that another
    program has changed rules, not necessarily those of the proxy."""

    def __init__(self) -> None:
        self.expected: int | None = None

    def count(self) -> None:
        """Count a transaction of this process."""
        if self.expected is not None:
            self.expected = self.expected + 1 & 0xFFFFFFFF


class ProxyTable:
    """The table of one IP family in the kernel. `monotonic` returns the current time in seconds."""

    def __init__(
        self, *, compiler: ServiceCompiler, generation: RulesetGeneration, monotonic: Callable[[], float]
    ) -> None:
        self._socket = NftSocket(compiler.family.number)
        self._encoder = OperationEncoder(compiler.family)
        self._generation, self._monotonic = generation, monotonic
        self._state = TableState(compiler)
        self._stale: dict[str, float] = {}
        """Chains to be deleted, with the monotonic time since when nothing refers to them."""
        self._comment = TEMPORARY if compiler.config.removes_rules else LASTING
        self._identity: tuple[bytes, bytes] | None = None
        """The handle of the table and the number of its objects after the last commit."""

    @property
    def services(self) -> ServiceStates:
        """The services as committed."""
        return self._state.services

    @property
    def has_stale_chains(self) -> bool:
        return bool(self._stale)

    def close(self) -> None:
        self._socket.close()

    # -- partial sync ------------------------------------------------------------------------------------------------

    def apply(self, states: ServiceStates) -> RefusedServices:
        """Write the new states of some services in one transaction, and return those that the kernel refused."""
        refused: RefusedServices = {}
        while states:
            try:
                update = self._state.update(states)
                self._commit(update.operations)
            except UnusableService as failure:
                refused[failure.service] = self._report(failure)
                states = {service: ports for service, ports in states.items() if service != failure.service}
                continue
            except TransactionFailed as failure:
                if not self.is_complete():
                    raise
                owners = self._owners(update.operations, failure)
                if owners is None:
                    return refused | self._bisect(states, failure)
                refused |= owners
                states = {service: ports for service, ports in states.items() if service not in owners}
                continue
            self._state.accept(update)
            now = self._monotonic()
            self._stale |= dict.fromkeys(update.stale_chains, now)
            for name in update.active_chains:
                self._stale.pop(name, None)
            break
        return refused

    def _owners(self, operations: Sequence[Owned], failure: TransactionFailed) -> RefusedServices | None:
        """Return the services of the messages that the kernel refused, or None if it did not say which."""
        owners = [owner for owner, operation in operations for _ in self._encoder.encode(operation)]
        refused: RefusedServices = {}
        for index, code in failure.errors.items():
            owner = owners[index] if 0 <= index < len(owners) else None
            if owner is None:
                return None
            refused.setdefault(owner, os.strerror(code))
        return refused

    @staticmethod
    def _report(failure: UnusableService) -> str:
        """Log why a service cannot be compiled, and return the reason for its event."""
        log.error("%s", failure, exc_info=failure.__cause__)
        return str(failure)

    def _bisect(self, states: ServiceStates, failure: TransactionFailed) -> RefusedServices:
        if len(states) == 1:
            return dict.fromkeys(states, str(failure))
        entries, middle = list(states.items()), len(states) // 2
        return self.apply(dict(entries[:middle])) | self.apply(dict(entries[middle:]))

    def delete_stale_chains(self) -> None:
        """Delete chains that nothing has referred to for a while."""
        limit = self._monotonic() - STALE_S
        names = [name for name, since in self._stale.items() if since <= limit]
        try:
            self._commit([(None, DeleteChain(name)) for name in names])
        except TransactionFailed:
            now = self._monotonic()
            self._stale |= dict.fromkeys(names, now)
            raise
        for name in names:
            del self._stale[name]

    # -- full sync ---------------------------------------------------------------------------------------------------

    def rebuild(self, compiler: ServiceCompiler, states: ServiceStates) -> RefusedServices:
        """Write the whole table, and return the services that the kernel refused.

        Chains are written in bounded transactions. The last transaction fills the maps, so that all services become
        effective at once. Rules of an earlier run stay effective until then.
        """
        if self._is_foreign():
            name = f"{compiler.family.nft} {TABLE}"
            raise ForeignTable(
                f"the table {name} is that of another kube-proxy; if that is gone, run: nft delete table {name}"
            )
        try:
            return self._rebuild(compiler, states, is_replaced=False)
        except TransactionFailed as failure:
            log.warning("replacing the table %s %s: %s", compiler.family.nft, TABLE, failure)
            return self._rebuild(compiler, states, is_replaced=True)

    def _rebuild(self, compiler: ServiceCompiler, states: ServiceStates, *, is_replaced: bool) -> RefusedServices:
        self._state, self._stale = TableState(compiler), {}
        table = AddTable(self._comment)
        replacement: list[Operation] = [DeleteTable(), table] if is_replaced else []
        sets = (AddNamedSet(named) for named in SETS)
        self._commit([(None, operation) for operation in (table, *replacement, *sets)])
        chains, affinity_sets = self._list_leftovers()
        refused: RefusedServices = {}
        for chunk in _chunks(states.items(), CHUNK):
            refused |= self._write_chains(dict(chunk), chains, affinity_sets)
        self._commit([(None, operation) for operation in self._activation(chains, affinity_sets)])
        self._stale = dict.fromkeys(chains, self._monotonic())
        return refused

    def _list_leftovers(self) -> tuple[set[str], set[str]]:
        """Return the chains and affinity sets of services that are left of an earlier run."""
        chains = {name for name in self._names(nl.NFT_MSG_GETCHAIN, nl.NFTA_CHAIN_NAME) if is_service_chain(name)}
        sets = {name for name in self._names(nl.NFT_MSG_GETSET, nl.NFTA_SET_NAME) if name.startswith(AFFINITY_PREFIX)}
        return chains, sets

    def _names(self, kind: int, attribute: int) -> Iterator[str]:
        for entry in self._socket.dump(kind, _TABLE_ATTRIBUTE):
            if entry.get(nl.NFTA_TABLE_NAME) == _TABLE_NAME:
                yield read_text(entry[attribute])

    def _write_chains(self, states: ServiceStates, chains: set[str], affinity_sets: set[str]) -> RefusedServices:
        """Write the chains of services. Chains and sets that are still in use are removed from `chains` and
        `affinity_sets`, the leftovers of an earlier run."""
        refused: RefusedServices = {}
        while states:
            try:
                update = self._state.update(states)
                self._commit(update.chains)
            except UnusableService as failure:
                refused[failure.service] = self._report(failure)
                states = {service: ports for service, ports in states.items() if service != failure.service}
                continue
            except TransactionFailed as failure:
                owners = self._owners(update.chains, failure)
                if owners is None and len(states) == 1:
                    owners = dict.fromkeys(states, str(failure))
                if owners is None:
                    for half in _chunks(states.items(), len(states) // 2):
                        refused |= self._write_chains(dict(half), chains, affinity_sets)
                    return refused
                if any(code == errno.EEXIST for code in failure.errors.values()):
                    raise  # a set of an earlier run has another type or timeout
                refused |= owners
                states = {service: ports for service, ports in states.items() if service not in owners}
                continue
            self._state.accept(update)
            chains.difference_update(update.active_chains)
            for compiled in map(self._state.compiler.compile, states.values()):
                affinity_sets.difference_update(compiled.affinity_sets)
            break
        return refused

    def _activation(self, stale_chains: Iterable[str], stale_sets: Iterable[str]) -> Iterator[Operation]:
        """Yield the operations that make the services effective: base chains, static rules and all elements."""
        for chain in BASE_CHAINS:  # the properties of a base chain cannot be changed, so it is created again
            yield from (AddChain(chain.name), DeleteChain(chain.name), AddBaseChain(chain))
        yield from self._static_operations()
        for named in SETS:
            yield FlushNamedSet(named)
        yield from elements_by_set(self._all_elements())
        yield from (FlushChain(name) for name in stale_chains)
        yield from (DeleteSet(name) for name in stale_sets)

    def _static_operations(self) -> Iterator[Operation]:
        compiler = self._state.compiler
        rules = static_rules(compiler.family, compiler.config, compiler.facts)
        for name in rules:
            yield from (AddChain(name), FlushChain(name))
        for chain in BASE_CHAINS:
            yield FlushChain(chain.name)
            yield from (AddRule(chain.name, rule) for rule in base_rules(chain.name))
        for name, entries in rules.items():
            yield from (AddRule(name, rule) for rule in entries)

    def _all_elements(self) -> Iterator[tuple[ElementKey, str]]:
        return itertools.chain(self._state.elements, ((key, "") for key in self._node_port_keys()))

    def _node_port_keys(self) -> list[ElementKey]:
        return [ElementKey(NODEPORT_IPS, (address,)) for address in self._state.compiler.facts.node_port_ips or ()]

    def update_static_rules(self, compiler: ServiceCompiler) -> None:
        """Write the rules that do not depend on services again, for a node whose addresses or service CIDRs changed."""
        previous, self._state.compiler = self._state.compiler, compiler
        node_ports = SETS_BY_NAME[NODEPORT_IPS]
        elements = [AddElements(node_ports, [(key, "") for key in self._node_port_keys()])]
        operations = [*self._static_operations(), FlushNamedSet(node_ports), *elements]
        try:
            self._commit([(None, operation) for operation in operations])
        except TransactionFailed:
            self._state.compiler = previous
            raise

    def remove(self) -> None:
        """Remove the table, unless it is that of another kube-proxy."""
        if self._socket.get(nl.NFT_MSG_GETTABLE, _TABLE_ATTRIBUTE) is not None and not self._is_foreign():
            self._commit([(None, DeleteTable())])

    def _is_foreign(self) -> bool:
        """Return whether the table belongs to another kube-proxy, whose table a temporary proxy must not change."""
        table = self._socket.get(nl.NFT_MSG_GETTABLE, _TABLE_ATTRIBUTE) if self._comment == TEMPORARY else None
        return table is not None and TEMPORARY.encode() not in table.get(nl.NFTA_TABLE_USERDATA, b"")

    # -- checks ------------------------------------------------------------------------------------------------------

    def detect_foreign_change(self) -> bool:
        """Return whether another program may have changed rules since the last call. Changes up to now are not reported
        again."""
        generation = self._socket.get(nl.NFT_MSG_GETGEN)
        assert generation is not None
        current = int.from_bytes(generation[nl.NFTA_GEN_ID], "big")
        is_changed = self._generation.expected != current
        self._generation.expected = current
        return is_changed

    def is_complete(self) -> bool:
        """Return whether the table has as many chains, sets and rules of its own as after the last commit. Deleted
        elements, and rules of services, are left to `audit`."""
        if self._identity is None or self._table_identity() != self._identity:
            return False
        compiler = self._state.compiler
        expected = {chain.name: len(base_rules(chain.name)) for chain in BASE_CHAINS}
        expected |= {n: len(r) for n, r in static_rules(compiler.family, compiler.config, compiler.facts).items()}
        return all(self._rule_count(name) == count for name, count in expected.items())

    def _rule_count(self, chain: str) -> int:
        name = chain.encode() + b"\0"
        payload = _TABLE_ATTRIBUTE + text_attribute(nl.NFTA_RULE_CHAIN, chain)
        return sum(entry.get(nl.NFTA_RULE_CHAIN) == name for entry in self._socket.dump(nl.NFT_MSG_GETRULE, payload))

    def _table_identity(self) -> tuple[bytes, bytes] | None:
        table = self._socket.get(nl.NFT_MSG_GETTABLE, _TABLE_ATTRIBUTE)
        return None if table is None else (table.get(nl.NFTA_TABLE_HANDLE, b""), table[nl.NFTA_TABLE_USE])

    def audit(self) -> list[str]:
        """Compare the chains, numbers of rules and elements with those in the kernel, and return the differences as
        text."""
        differences: list[str] = []
        rules: dict[str, int] = {chain.name: len(base_rules(chain.name)) for chain in BASE_CHAINS}
        compiler = self._state.compiler
        rules |= {n: len(r) for n, r in static_rules(compiler.family, compiler.config, compiler.facts).items()}
        for compiled in self._state.compile_all():
            rules |= {name: len(entries) for name, entries in compiled.chains.items()}
        actual = {name: 0 for name in self._names(nl.NFT_MSG_GETCHAIN, nl.NFTA_CHAIN_NAME) if name not in self._stale}
        for entry in self._socket.dump(nl.NFT_MSG_GETRULE, _TABLE_ATTRIBUTE):
            name = read_text(entry[nl.NFTA_RULE_CHAIN])
            if entry.get(nl.NFTA_RULE_TABLE) == _TABLE_NAME and name in actual:
                actual[name] += 1
        differences += (f"chain {name}" for name in _differing_keys(rules, actual))
        expected: dict[str, dict[bytes, bytes]] = {named.name: {} for named in SETS}
        for operation in elements_by_set(self._all_elements()):
            for message in self._encoder.encode(operation):
                expected[operation.set.name] |= _elements(read_attributes(message.body))
        for named in SETS:
            content: dict[bytes, bytes] = {}
            for entry in self._socket.dump(
                nl.NFT_MSG_GETSETELEM, _TABLE_ATTRIBUTE + text_attribute(nl.NFTA_SET_ELEM_LIST_SET, named.name)
            ):
                content |= _elements(entry)
            count = sum(1 for _ in _differing_keys(expected[named.name], content))
            if count:
                differences.append(f"{count} elements of {named.name}")
        return differences

    # -- commits -----------------------------------------------------------------------------------------------------

    def _commit(self, operations: Iterable[Owned]) -> None:
        messages = [message for _, operation in operations for message in self._encoder.encode(operation)]
        if not messages:
            return
        self._socket.commit(messages)
        self._generation.count()
        self._identity = self._table_identity()


def _differing_keys(expected: Mapping[T, object], actual: Mapping[T, object]) -> Iterator[T]:
    return (key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key))


def _elements(entry: Mapping[int, bytes]) -> dict[bytes, bytes]:
    """Return the keys of the elements in a message, and the data of their verdicts."""
    elements = {}
    for _, element in iterate_attributes(entry.get(nl.NFTA_SET_ELEM_LIST_ELEMENTS, b"")):
        parts = read_attributes(element)
        key = read_attributes(parts[nl.NFTA_SET_ELEM_KEY])[nl.NFTA_DATA_VALUE]
        data = read_attributes(parts.get(nl.NFTA_SET_ELEM_DATA, b""))
        action = read_attributes(data.get(nl.NFTA_DATA_VERDICT, b""))
        elements[key] = action.get(nl.NFTA_VERDICT_CODE, b"") + action.get(nl.NFTA_VERDICT_CHAIN, b"")
    return elements


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
