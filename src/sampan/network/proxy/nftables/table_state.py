"""The content of the table of one IP family, kept in memory: no sync reads the rules of the kernel.

A change of services becomes a `TableUpdate`, whose size depends on the change. It is accepted once it is committed. The
state of a service is kept as service ports, from which its rules can be compiled again. Only elements have a table of
their own, because several services can have the same one, such as an endpoint in `hairpin-connections`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.nftables.compiler import CompiledService, ElementKey, ServiceCompiler
from sampan.network.proxy.nftables.layout import SETS_BY_NAME
from sampan.network.proxy.nftables.operations import (
    AddAffinitySet,
    AddChain,
    AddElements,
    AddRule,
    DeleteElements,
    DeleteSet,
    FlushChain,
    Operation,
)
from sampan.network.proxy.services import ServicePortState

ServiceStates = Mapping[NamespacedName, tuple[ServicePortState, ...]]
Owned = tuple[NamespacedName | None, Operation]
"""An operation on the table, and the service that needs it."""


class _ElementClaim(NamedTuple):
    """The claim of a service to an element, with the verdict that the service gives the element. Of several claims the
    least one decides."""

    rank: int
    created: str
    service: NamespacedName
    action: str


class UnusableService(Exception):
    """The rules of a service cannot be compiled because of a bug. The rules of the other services are written
    nevertheless."""

    def __init__(self, service: NamespacedName) -> None:
        super().__init__(f"the rules of service {service} cannot be compiled")
        self.service = service


NO_SERVICE = CompiledService()


@dataclass(slots=True)
class TableUpdate:
    """A change of some services. `chains` are the operations on chains and sets; `elements` make them effective."""

    states: ServiceStates
    chains: list[Owned] = field(default_factory=list)
    elements: list[Owned] = field(default_factory=list)
    stale_chains: list[str] = field(default_factory=list)
    """Chains without rules and references, to be deleted later."""
    active_chains: list[str] = field(default_factory=list)
    """Chains that were added or written."""
    claims: dict[ElementKey, tuple[_ElementClaim, ...]] = field(default_factory=dict)
    """The new claims on the elements that the services have or had."""

    @property
    def operations(self) -> list[Owned]:
        return self.chains + self.elements


class TableState:
    """The committed services of one table."""

    def __init__(self, compiler: ServiceCompiler) -> None:
        self.compiler = compiler
        self._services: dict[NamespacedName, tuple[ServicePortState, ...]] = {}
        self._claims: dict[ElementKey, tuple[_ElementClaim, ...]] = {}

    @property
    def services(self) -> ServiceStates:
        return self._services

    @property
    def elements(self) -> Iterator[tuple[ElementKey, str]]:
        """The elements and their verdicts."""
        return ((key, claims[0].action) for key, claims in self._claims.items())

    def compile_all(self) -> Iterator[CompiledService]:
        return (self.compiler.compile(states) for states in self._services.values())

    def update(self, states: ServiceStates) -> TableUpdate:
        """Return the update from the committed states of services to these states. A service without ports is removed.

        Raise UnusableService if the rules of a service cannot be compiled.
        """
        update = TableUpdate(states)
        for service, ports in states.items():
            old = self.compiler.compile(self._services[service]) if service in self._services else NO_SERVICE
            new = self._compile(service, ports) if ports else NO_SERVICE
            update.chains += ((service, operation) for operation in _chain_operations(old, new, update))
            self._update_claims(update, service, old, new)
        update.elements = list(self._element_operations(update))
        return update

    def _compile(self, service: NamespacedName, ports: tuple[ServicePortState, ...]) -> CompiledService:
        try:
            return self.compiler.compile(ports)
        except Exception as error:
            raise UnusableService(service) from error

    def _update_claims(
        self, update: TableUpdate, service: NamespacedName, old: CompiledService, new: CompiledService
    ) -> None:
        for key in old.elements.keys() | new.elements.keys():
            action, rank = new.elements.get(key), new.ranks.get(key, 0)
            if old.elements.get(key) == action and old.ranks.get(key, 0) == rank:
                continue
            claims = update.claims.get(key, self._claims.get(key, ()))
            others = tuple(claim for claim in claims if claim.service != service)
            own = () if action is None else (_ElementClaim(rank, new.created, service, action),)
            update.claims[key] = tuple(sorted((*others, *own)))

    def _element_operations(self, update: TableUpdate) -> Iterator[Owned]:
        """Yield the operations on elements, one for each service and set. Deletions come before additions, because a
        changed verdict is both."""
        added: dict[tuple[NamespacedName, str], list[tuple[ElementKey, str]]] = {}
        deleted: dict[tuple[NamespacedName, str], list[ElementKey]] = {}
        for key, claims in update.claims.items():
            before, after = self._claims.get(key, ()), claims
            if before and after and before[0].action == after[0].action:
                continue
            if before:
                deleted.setdefault(((after or before)[0].service, key.set), []).append(key)
            if after:
                added.setdefault((after[0].service, key.set), []).append((key, after[0].action))
        for (service, name), keys in deleted.items():
            yield service, DeleteElements(SETS_BY_NAME[name], sorted(keys, key=str))
        for (service, name), entries in added.items():
            yield service, AddElements(SETS_BY_NAME[name], sorted(entries, key=str))

    def accept(self, update: TableUpdate) -> None:
        """Take over an update that is committed."""
        for service, ports in update.states.items():
            if ports:
                self._services[service] = ports
            else:
                self._services.pop(service, None)
        for key, claims in update.claims.items():
            if claims:
                self._claims[key] = claims
            else:
                self._claims.pop(key, None)


def _chain_operations(old: CompiledService, new: CompiledService, update: TableUpdate) -> Iterable[Operation]:
    """Return the operations that change the chains and sets of a service from `old` to `new`.

    The order is one that nftables accepts: a set can be deleted once no rule refers to it, and a rule can refer only to
    sets and chains that exist.
    """
    written = [name for name, rules in new.chains.items() if old.chains.get(name) != rules]
    removed = [name for name in old.chains if name not in new.chains]
    replaced_sets = [name for name, timeout in old.affinity_sets.items() if new.affinity_sets.get(name) != timeout]
    if any(name in new.affinity_sets for name in replaced_sets):
        written = list(new.chains)  # all chains may refer to a set whose timeout has changed
    update.stale_chains += removed
    update.active_chains += written
    return [
        *(AddChain(name) for name in written),
        *(FlushChain(name) for name in (*written, *removed)),
        *(DeleteSet(name) for name in replaced_sets),
        *(
            AddAffinitySet(name, timeout)
            for name, timeout in new.affinity_sets.items()
            if old.affinity_sets.get(name) != timeout
        ),
        *(AddRule(name, rule) for name in written for rule in new.chains[name]),
    ]
