"""A model of nftables that executes the text of transactions and walks packets through the result.

It knows as much of the language as the compiler writes, and fails where the kernel would: for a missing set, chain or
element, for the deletion of something that is in use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from tests.network.policy.oracle import Packet

_COMMAND = re.compile(r"(add|delete|flush) (table|set|map|chain|rule|element) inet (\S+)(?: (\S+))?(?: (.*))?")
_REFERENCE = re.compile(r"@(\S+)")
_TARGET = re.compile(r"(?:jump|goto) (\S+)")
_LOOKUP = re.compile(r"((?:\S+ \S+)(?: \. \S+ \S+)*) (vmap )?(@\S+|\{[^}]*\}|\S+/\d+)")
_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


@dataclass
class ModelChain:
    hook: str = ""
    rules: list[str] = field(default_factory=list)

    @property
    def priority(self) -> int:
        priority = re.search(r"priority filter \+ (\d+)", self.hook)
        assert priority is not None, self.hook
        return int(priority[1])


@dataclass
class ModelSet:
    declaration: str
    elements: dict[str, str] = field(default_factory=dict)


class KernelModel:
    def __init__(self) -> None:
        self.exists = False
        self.chains: dict[str, ModelChain] = {}
        self.sets: dict[str, ModelSet] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelModel) and (self.chains, self.sets) == (other.chains, other.sets)

    # -- transactions ------------------------------------------------------------------------------------------------

    def run(self, text: str) -> None:
        for line in text.splitlines():
            command = _COMMAND.fullmatch(line)
            assert command is not None, line
            verb, kind, _, name, rest = command.groups()
            assert self.exists or kind == "table", line
            getattr(self, f"_{verb}_{'set' if kind == 'map' else kind}")(name, rest or "")
        for chain in self.chains.values():
            for rule in chain.rules:
                self._check_references(rule)
        for content in self.sets.values():
            for value in content.elements.values():
                self._check_references(value)

    def _check_references(self, text: str) -> None:
        for name in _REFERENCE.findall(text):
            assert name in self.sets, f"no set {name}"
        for name in _TARGET.findall(text):
            assert name in self.chains, f"no chain {name}"

    def _add_table(self, name: str, rest: str) -> None:
        self.exists = True

    def _delete_table(self, name: str, rest: str) -> None:
        assert self.exists
        self.exists = False
        self.chains.clear()
        self.sets.clear()

    def _add_set(self, name: str, rest: str) -> None:
        present = self.sets.setdefault(name, ModelSet(rest))
        assert present.declaration == rest

    def _flush_set(self, name: str, rest: str) -> None:
        self.sets[name].elements.clear()

    def _delete_set(self, name: str, rest: str) -> None:
        del self.sets[name]

    def _add_chain(self, name: str, rest: str) -> None:
        self.chains.setdefault(name, ModelChain(rest))

    def _flush_chain(self, name: str, rest: str) -> None:
        self.chains[name].rules.clear()

    def _delete_chain(self, name: str, rest: str) -> None:
        assert not self.chains[name].rules
        del self.chains[name]

    def _add_rule(self, name: str, rest: str) -> None:
        self._check_references(rest)
        self.chains[name].rules.append(rest)

    def _add_element(self, name: str, rest: str) -> None:
        for item in rest.strip("{} ").split(", "):
            key, _, value = item.partition(" : ")
            assert self.sets[name].elements.setdefault(key, value) == value, f"{key} exists in {name}"

    def _delete_element(self, name: str, rest: str) -> None:
        for key in rest.strip("{} ").split(", "):
            del self.sets[name].elements[key]

    # -- packets -----------------------------------------------------------------------------------------------------

    def accepts(self, packet: Packet, interface: str = "bridge") -> bool:
        """Return whether the first packet of a connection is forwarded."""
        base = sorted((chain.priority, name) for name, chain in self.chains.items() if chain.hook)
        return all(self._walk(name, packet, interface) != "drop" for _, name in base)

    def _walk(self, name: str, packet: Packet, interface: str) -> str:
        """Return accept, drop, or an empty string if the chain returns."""
        for rule in self.chains[name].rules:
            action = self._evaluate(rule, packet, interface)
            verb, _, target = action.partition(" ")
            if verb == "jump":
                action = self._walk(target, packet, interface)
            elif verb == "goto":
                return self._walk(target, packet, interface)
            if action:
                return action
        return ""

    def _evaluate(self, rule: str, packet: Packet, interface: str) -> str:
        """Return the action of a rule, or an empty string if it does not match."""
        parsed = _parse(rule)
        if parsed.is_for_replies or parsed.excluded_interface == interface:
            return ""
        for lookup in parsed.lookups:
            values = tuple(_field(name, packet) for name in lookup.fields)
            if None in values:
                return ""
            element = self._find(values, lookup.content)
            if lookup.is_map:
                return element or ""
            if element is None:
                return ""
        return parsed.action

    def _find(self, values: tuple[str | None, ...], content: str) -> str | None:
        elements = self.sets[content[1:]].elements if content.startswith("@") else _anonymous_set(content)
        for key, value in elements.items():
            if _is_element(values, key):
                return value
        return None


@dataclass(frozen=True)
class Lookup:
    fields: list[str]
    is_map: bool
    content: str


@dataclass(frozen=True)
class ModelRule:
    is_for_replies: bool = False
    """Whether the rule matches only packets that are not the first one of a connection, or neighbor discovery."""
    excluded_interface: str = ""
    lookups: list[Lookup] = field(default_factory=list)
    action: str = ""


@cache
def _parse(rule: str) -> ModelRule:
    if rule.startswith(("ct state established,related ", "icmpv6 ")):
        return ModelRule(is_for_replies=True)
    excluded_interface, lookups = "", []
    if condition := re.match(r'iifname != "(\S+)" ', rule):
        excluded_interface, rule = condition[1], rule[condition.end() :]
    while condition := _LOOKUP.match(rule):
        fields, vmap, content = condition.groups()
        rule = rule[condition.end() :].strip()
        lookups.append(Lookup(fields.split(" . "), bool(vmap), content))
    ends_in_map = lookups and lookups[-1].is_map and not rule
    assert ends_in_map or re.fullmatch(r"accept|drop|(jump|goto) \S+", rule), rule
    return ModelRule(excluded_interface=excluded_interface, lookups=lookups, action=rule)


@cache
def _anonymous_set(content: str) -> dict[str, str]:
    return dict.fromkeys(content.strip("{} ").split(", "), "")


@cache
def _is_element(values: tuple[str | None, ...], key: str) -> bool:
    parts = key.split(" . ")
    assert len(parts) == len(values), (key, values)
    return all(_is_in(str(value), part) for value, part in zip(values, parts, strict=True))


def _field(name: str, packet: Packet) -> str | None:
    family, field_name = name.split(" ")
    if family in ("ip", "ip6"):
        address = packet.source if field_name == "saddr" else packet.destination
        return address if (":" in address) == (family == "ip6") else None
    return {"meta l4proto": _PROTOCOLS[packet.protocol], "th dport": str(packet.port)}[name]


def _is_in(value: str, element: str) -> bool:
    if value == element:
        return True
    if "/" in element:
        return ip_address(value) in ip_network(element)
    if "-" not in element:
        return False
    first, last = element.split("-")
    return _number(first) <= _number(value) <= _number(last)


def _number(text: str) -> int:
    address: IPv4Address | IPv6Address
    if text.isdecimal():
        return int(text)
    address = ip_address(text)
    return int(address)
