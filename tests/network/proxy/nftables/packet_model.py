"""A model of nftables that walks packets through the operations that the proxy would commit.

It parses the text of the rules, as far as the proxy uses the language of nftables, and knows nothing of services.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import ip_address, ip_network

from sampan.network.proxy.nftables.expressions import rule_text
from sampan.network.proxy.nftables.layout import BASE_CHAINS
from sampan.network.proxy.nftables.operations import (
    AddAffinitySet,
    AddBaseChain,
    AddChain,
    AddElements,
    AddNamedSet,
    AddRule,
    AddTable,
    DeleteChain,
    DeleteElements,
    DeleteSet,
    DeleteTable,
    FlushChain,
    FlushNamedSet,
    Operation,
)

Choose = Callable[[int], int]


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection."""

    source: str
    destination: str
    protocol: str
    port: int
    interface: str = ""
    """The incoming interface; empty for packets of the node itself."""
    mark: int = 0
    is_translated: bool = False


@dataclass(frozen=True, order=True)
class Outcome:
    """What happens to a packet: drop, reject, or pass to a destination."""

    statement: str
    destination: str = ""
    port: int = 0
    is_masqueraded: bool = False


class _Stop(Exception):
    def __init__(self, statement: str) -> None:
        self.statement = statement


@dataclass
class Model:
    """The content of a table."""

    local_addresses: frozenset[str] = frozenset()
    chains: dict[str, list[str]] = field(default_factory=dict)
    sets: dict[str, dict[str, str]] = field(default_factory=dict)

    # -- operations --------------------------------------------------------------------------------------------------

    def apply(self, operations: Iterable[Operation]) -> None:
        """Apply a transaction. References to missing objects, and deletions of objects in use, are errors."""
        for operation in operations:
            self._apply(operation)
        self.check()

    def check(self) -> None:
        for chain, rules in self.chains.items():
            for name in (name for rule in rules for name in re.findall(r"(?:goto|jump) (\S+?)(?=[,\s]|$)", rule)):
                assert name in self.chains, f"{chain} refers to {name}"
            for name in (name for rule in rules for name in re.findall(r"@(\S+)", rule)):
                assert name in self.sets, f"{chain} refers to the set {name}"
        for name, elements in self.sets.items():
            for statement in elements.values():
                assert statement in ("", "drop") or statement.removeprefix("goto ") in self.chains, (name, statement)

    def _apply(self, operation: Operation) -> None:
        match operation:
            case AddTable(_):
                pass
            case DeleteTable():
                self.chains.clear()
                self.sets.clear()
            case AddNamedSet(named):
                self.sets.setdefault(named.name, {})
            case FlushNamedSet(named):
                self.sets[named.name].clear()
            case AddAffinitySet(name, _):
                self.sets.setdefault(name, {})
            case DeleteSet(name):
                assert not any(f"@{name} " in f"{rule} " for rules in self.chains.values() for rule in rules), name
                del self.sets[name]
            case AddChain(name):
                self.chains.setdefault(name, [])
            case AddBaseChain(chain):
                self.chains.setdefault(chain.name, [])
            case FlushChain(name):
                self.chains[name] = []
            case DeleteChain(name):
                del self.chains[name]
            case AddRule(name, rule):
                self.chains[name].append(rule_text(rule))
            case AddElements(named, entries):
                for key, statement in entries:
                    assert self.sets[named.name].get(str(key), statement) == statement, f"{key} has another verdict"
                    self.sets[named.name][str(key)] = statement
            case DeleteElements(named, keys):
                for key in keys:
                    del self.sets[named.name][str(key)]

    # -- packets -----------------------------------------------------------------------------------------------------

    def outcomes(self, packet: Packet) -> set[Outcome]:
        """Return everything that can happen to a packet."""
        return {outcome for outcome, _ in self.branches(packet)}

    def branches(self, packet: Packet) -> list[tuple[Outcome, Model]]:
        """Return everything that can happen to a packet, each with the table afterwards."""
        results, pending = [], [[]]  # type: ignore[var-annotated]
        while pending:
            script: list[int] = pending.pop()
            choices: list[int] = []

            def choose(count: int, script: list[int] = script, choices: list[int] = choices) -> int:
                choice = script[len(choices)] if len(choices) < len(script) else 0
                if len(choices) >= len(script):
                    pending.extend([*choices, other] for other in range(1, count))
                choices.append(choice)
                return choice

            model = replace(self)  # a walk replaces what it changes
            results.append((model._walk(packet, choose), model))
        return results

    def _walk(self, packet: Packet, choose: Choose) -> Outcome:
        is_output = not packet.interface
        try:
            packet = self._hook("output" if is_output else "prerouting", packet, choose)
            is_delivered = packet.destination in self.local_addresses
            if is_delivered or not is_output:  # packets of the node to itself arrive on the loopback interface
                packet = self._hook("input" if is_delivered else "forward", packet, choose)
            if is_output or not is_delivered:
                self._hook("postrouting", packet, choose)
        except _Stop as stop:
            if stop.statement == "masquerade":
                return Outcome("pass", packet.destination, packet.port, is_masqueraded=True)
            return Outcome(stop.statement)
        return Outcome("pass", packet.destination, packet.port)

    def _hook(self, hook: str, packet: Packet, choose: Choose) -> Packet:
        for chain in sorted((chain for chain in BASE_CHAINS if chain.hook == hook), key=lambda chain: chain.priority):
            packet, _ = self._chain(chain.name, packet, choose)
        return packet

    def _chain(self, name: str, packet: Packet, choose: Choose) -> tuple[Packet, bool]:
        """Return the packet after a chain, and whether the base chain accepted it."""
        for rule in self.chains[name]:
            packet, target, is_accepted = self._rule(rule, packet, choose)
            if is_accepted:
                return packet, True
            if target:
                kind, _, chain = target.partition(" ")
                packet, is_accepted = self._chain(chain, packet, choose)
                if is_accepted or kind == "goto":
                    return packet, is_accepted
        return packet, False

    def _rule(self, rule: str, packet: Packet, choose: Choose) -> tuple[Packet, str, bool]:
        """Return the packet after a rule, its target chain, and whether it is accepted."""
        for matched, action in _parse(rule):
            result = action(self, matched, packet, choose)
            if result is False:
                return packet, "", False
            if isinstance(result, Packet):
                packet = result
                if packet.is_translated and "dnat" in matched.group():
                    return packet, "", True
            elif isinstance(result, str):
                return packet, result, False
        return packet, "", False

    def _continue(self, statement: str | None) -> str | bool:
        if statement is None:
            return False
        if statement in ("drop", "reject", "masquerade"):
            raise _Stop(statement)
        return statement


def _side(packet: Packet, side: str) -> str:
    return packet.source if side == "saddr" else packet.destination


def _destination_key(packet: Packet) -> str:
    return f"{packet.destination} . {packet.protocol} . {packet.port}"


def _port_key(packet: Packet) -> str:
    return f"{packet.protocol} . {packet.port}"


def _dnat(packet: Packet, address: str, port: str) -> Packet:
    return replace(packet, destination=address.strip("[]"), port=int(port), is_translated=True)


def _update(model: Model, name: str, packet: Packet) -> bool:
    model.sets = {**model.sets, name: {**model.sets[name], packet.source: ""}}
    return True


@cache
def _is_in(address: str, networks: str) -> bool:
    return any(ip_address(address) in ip_network(network) for network in re.split(r",\s*", networks))


def _pairs(content: str) -> list[list[str]]:
    return [re.split(r"\s+:\s+", pair) for pair in re.split(r",\s+", content.strip())]


_Result = Packet | str | bool
_Action = Callable[[Model, re.Match[str], Packet, Choose], _Result]


@cache
def _parse(rule: str) -> list[tuple[re.Match[str], _Action]]:
    """Return the matches and statements of a rule."""
    parsed, rest = [], rule
    while rest:
        matches = ((re.match(pattern + r"(?:\s+|$)", rest), action) for pattern, action in _LANGUAGE)
        matched, action = next(((matched, action) for matched, action in matches if matched), (None, None))
        assert matched is not None, f"the model does not know {rest!r}"
        assert action is not None
        parsed.append((matched, action))
        rest = rest[matched.end() :]
    return parsed


_LANGUAGE: list[tuple[str, _Action]] = [
    (r"ct state new", lambda m, g, p, c: True),
    (r"ct status dnat", lambda m, g, p, c: p.is_translated),
    (r"meta l4proto (tcp|udp|sctp)", lambda m, g, p, c: p.protocol == g[1]),
    (r"fib (saddr|daddr) type local", lambda m, g, p, c: _side(p, g[1]) in m.local_addresses),
    (r'iifname != "([^"]+)"', lambda m, g, p, c: p.interface != g[1]),
    (r'iifname "([^"]+)"', lambda m, g, p, c: p.interface == g[1]),
    (
        r"(ip6?) saddr \. \1 daddr \. meta l4proto \. th dport @(\S+)",
        lambda m, g, p, c: f"{p.source} . {_destination_key(p)}" in m.sets[g[2]],
    ),
    (
        r"ip6? daddr \. meta l4proto \. th dport vmap @(\S+)",
        lambda m, g, p, c: m._continue(m.sets[g[1]].get(_destination_key(p))),
    ),
    (r"meta l4proto \. th dport vmap @(\S+)", lambda m, g, p, c: m._continue(m.sets[g[1]].get(_port_key(p)))),
    (r"ip6? (saddr|daddr) @(\S+)", lambda m, g, p, c: _side(p, g[1]) in m.sets[g[2]]),
    (r"ip6? (saddr|daddr) != \{ ([^}]*) \}", lambda m, g, p, c: not _is_in(_side(p, g[1]), g[2])),
    (r"ip6? (saddr|daddr) \{ ([^}]*) \}", lambda m, g, p, c: _is_in(_side(p, g[1]), g[2])),
    (r"ip6? (saddr|daddr) != (\S+)", lambda m, g, p, c: not _is_in(_side(p, g[1]), g[2])),
    (r"ip6? (saddr|daddr) (\S+)", lambda m, g, p, c: _is_in(_side(p, g[1]), g[2])),
    (r"mark and (0x\w+) != 0", lambda m, g, p, c: bool(p.mark & int(g[1], 16))),
    (r"mark set mark or (0x\w+)", lambda m, g, p, c: replace(p, mark=p.mark | int(g[1], 16))),
    (r"mark set mark xor (0x\w+)", lambda m, g, p, c: replace(p, mark=p.mark ^ int(g[1], 16))),
    (r"masquerade fully-random", lambda m, g, p, c: m._continue("masquerade")),
    (r"(drop|reject)", lambda m, g, p, c: m._continue(g[1])),
    (r"((?:goto|jump) \S+)", lambda m, g, p, c: g[1]),
    (r"update @(\S+) \{ ip6? saddr \}", lambda m, g, p, c: _update(m, g[1], p)),
    (r"dnat to (\[\S+\]|[\d.]+):(\d+)", lambda m, g, p, c: _dnat(p, g[1], g[2])),
    (
        r"dnat ip6? addr \. port to numgen random mod (\d+) map \{ ([^}]*) \}",
        lambda m, g, p, c: _dnat(p, *_pairs(g[2])[c(int(g[1]))][1].split(" . ")),
    ),
    (r"numgen random mod (\d+) vmap \{ ([^}]*) \}", lambda m, g, p, c: m._continue(_pairs(g[2])[c(int(g[1]))][1])),
]
