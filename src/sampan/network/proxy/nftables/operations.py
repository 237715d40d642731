"""Changes of a table: each operation has its text for `nft` and its netlink messages."""

from __future__ import annotations

import itertools
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sampan.network import nfnetlink as nl
from sampan.network.netlink_messages import attribute_list
from sampan.network.nfnetlink import NftMessage, attribute, nested_attribute, number, text
from sampan.network.proxy.nftables import expressions as x
from sampan.network.proxy.nftables.compiler import ElementKey
from sampan.network.proxy.nftables.expressions import PROTOCOLS, AnonymousSet, Rule, rule_text
from sampan.network.proxy.nftables.families import IPFamily
from sampan.network.proxy.nftables.layout import ADDRESS, PORT, PROTOCOL, SETS_BY_NAME, TABLE, BaseChain, NamedSet

_MAX_LIST = 60_000
"""The length of a list of elements in one message, whose length has 16 bits."""
_TYPES = {ADDRESS: 0, PROTOCOL: 12, PORT: 13}
_TYPE_NAMES = {PROTOCOL: "inet_proto", PORT: "inet_service"}
_SET_KEY_ORDER = 0


@dataclass(frozen=True, slots=True)
class AddTable:
    comment: str


@dataclass(frozen=True, slots=True)
class DeleteTable:
    pass


@dataclass(frozen=True, slots=True)
class AddNamedSet:
    set: NamedSet


@dataclass(frozen=True, slots=True)
class FlushNamedSet:
    set: NamedSet


@dataclass(frozen=True, slots=True)
class AddAffinitySet:
    name: str
    timeout_s: int


@dataclass(frozen=True, slots=True)
class DeleteSet:
    name: str


@dataclass(frozen=True, slots=True)
class AddChain:
    name: str


@dataclass(frozen=True, slots=True)
class AddBaseChain:
    chain: BaseChain


@dataclass(frozen=True, slots=True)
class FlushChain:
    name: str


@dataclass(frozen=True, slots=True)
class DeleteChain:
    name: str


@dataclass(frozen=True, slots=True)
class AddRule:
    chain: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class AddElements:
    """Add elements with their verdicts to one set or map."""

    set: NamedSet
    elements: Sequence[tuple[ElementKey, str]]


@dataclass(frozen=True, slots=True)
class DeleteElements:
    set: NamedSet
    elements: Sequence[ElementKey]


Operation = (
    AddTable
    | DeleteTable
    | AddNamedSet
    | FlushNamedSet
    | AddAffinitySet
    | DeleteSet
    | AddChain
    | AddBaseChain
    | FlushChain
    | DeleteChain
    | AddRule
    | AddElements
    | DeleteElements
)


def elements_by_set(elements: Iterable[tuple[ElementKey, str]]) -> Iterator[AddElements]:
    """Yield the operations that add elements, one for each set."""
    by_set: dict[str, list[tuple[ElementKey, str]]] = {}
    for key, action in elements:
        by_set.setdefault(key.set, []).append((key, action))
    for name, entries in by_set.items():
        yield AddElements(SETS_BY_NAME[name], entries)


# -- text --------------------------------------------------------------------------------------------------------------


def operation_text(operation: Operation, family: IPFamily) -> str:
    """Return the command for `nft` that does the same as the messages of an operation."""
    table = f"{family.nft} {TABLE}"
    match operation:
        case AddTable(comment):
            return f'add table {table} {{ comment "{comment}" ; }}'
        case DeleteTable():
            return f"delete table {table}"
        case AddNamedSet(named):
            kind = " . ".join(_TYPE_NAMES.get(part, family.address_type_name) for part in named.key)
            head = f"map {table} {named.name} {{ type {kind} : verdict ;" if named.is_map else ""
            return f"add {head or f'set {table} {named.name} {{ type {kind} ;'} }}"
        case FlushNamedSet(named):
            return f"flush {'map' if named.is_map else 'set'} {table} {named.name}"
        case AddAffinitySet(name, timeout_s):
            kind = family.address_type_name
            return f"add set {table} {name} {{ type {kind} ; flags dynamic,timeout ; timeout {timeout_s}s ; }}"
        case DeleteSet(name):
            return f"delete set {table} {name}"
        case AddChain(name):
            return f"add chain {table} {name}"
        case AddBaseChain(chain):
            hook = f"type {chain.type} hook {chain.hook} priority {chain.priority}"
            return f"add chain {table} {chain.name} {{ {hook} ; policy accept ; }}"
        case FlushChain(name):
            return f"flush chain {table} {name}"
        case DeleteChain(name):
            return f"delete chain {table} {name}"
        case AddRule(name, rule):
            return f"add rule {table} {name} {rule_text(rule)}"
        case AddElements(named, entries):
            listed = ", ".join(f"{key} : {action}" if action else str(key) for key, action in entries)
            return f"add element {table} {named.name} {{ {listed} }}"
        case DeleteElements(named, keys):
            return f"delete element {table} {named.name} {{ {', '.join(map(str, keys))} }}"


# -- messages ----------------------------------------------------------------------------------------------------------


class OperationEncoder:
    """Encodes operations on the table of one IP family."""

    def __init__(self, family: IPFamily) -> None:
        self._family = family
        self._table = text(1, TABLE)
        self._identities = itertools.count(1)
        self._anonymous = itertools.count(secrets.randbelow(1 << 40))
        """The numbers of anonymous sets. Without a number the kernel would search all sets of the table for a free one
        each time."""

    def encode(self, operation: Operation) -> list[NftMessage]:
        table = self._table
        match operation:
            case AddTable(comment):
                data = attribute(6, struct.pack("BB", 0, len(comment) + 1) + comment.encode() + b"\0")
                return [NftMessage(nl.NEWTABLE, table + number(2, 0) + data, nl.CREATE)]
            case DeleteTable():
                return [NftMessage(nl.DELTABLE, table)]
            case AddNamedSet(named):
                return [self._named_set(named)]
            case FlushNamedSet(named):
                return [NftMessage(nl.DELSETELEM, table + text(2, named.name))]
            case AddAffinitySet(name, timeout_s):
                timeout = attribute(11, (timeout_s * 1000).to_bytes(8, "big"))
                flags = x.SET_DYNAMIC | x.SET_TIMEOUT
                key = self._key(name, flags, self._family.address_type, self._family.length)
                return [NftMessage(nl.NEWSET, key + timeout + _key_order(x.NETWORK_ORDER), nl.CREATE)]
            case DeleteSet(name):
                return [NftMessage(nl.DELSET, table + text(2, name))]
            case AddChain(name):
                return [NftMessage(nl.NEWCHAIN, table + text(3, name), nl.CREATE)]
            case AddBaseChain(chain):
                hook = nested_attribute(
                    4, number(1, chain.hook_number), attribute(2, struct.pack(">i", chain.priority))
                )
                payload = table + text(3, chain.name) + hook + number(5, 1) + text(7, chain.type)
                return [NftMessage(nl.NEWCHAIN, payload, nl.CREATE)]
            case FlushChain(name):
                return [NftMessage(nl.DELRULE, table + text(2, name))]
            case DeleteChain(name):
                return [NftMessage(nl.DELCHAIN, table + text(3, name))]
            case AddRule(name, rule):
                return list(self._rule(name, rule))
            case AddElements(named, entries):
                encoded = (self._element(named, key, action) for key, action in entries)
                return self._element_messages(nl.NEWSETELEM, named.name, encoded)
            case DeleteElements(named, keys):
                encoded = (self._element(named, key, "") for key in keys)
                return self._element_messages(nl.DELSETELEM, named.name, encoded)

    def _key(self, name: str, flags: int, key_type: int, length: int) -> bytes:
        identity = number(10, next(self._identities) & 0x7FFFFFFF)
        return self._table + text(2, name) + number(3, flags) + number(4, key_type) + number(5, length) + identity

    def _named_set(self, named: NamedSet) -> NftMessage:
        kind = length = 0
        for part in named.key:
            kind = kind << 6 | (_TYPES[part] or self._family.address_type)
            length += self._family.length if part == ADDRESS else 4
        payload = self._key(named.name, x.SET_MAP if named.is_map else 0, kind, length)
        if named.is_map:
            payload += number(6, x.ACTION_TYPE)
        return NftMessage(nl.NEWSET, payload + _key_order(x.NETWORK_ORDER), nl.CREATE)

    def _element(self, named: NamedSet, key: ElementKey, action: str) -> bytes:
        value = b"".join(self._field(kind, part) for kind, part in zip(named.key, key.key, strict=True))
        data = [nested_attribute(2, x.encode_action(action))] if action else []
        return nested_attribute(1, nested_attribute(1, attribute(1, value)), *data)

    def _field(self, kind: str, value: str | int) -> bytes:
        if kind == ADDRESS:
            return self._family.pack(str(value))
        if kind == PROTOCOL:
            return bytes([PROTOCOLS[str(value)], 0, 0, 0])
        return int(value).to_bytes(2, "big") + b"\0\0"

    def _element_messages(self, kind: int, name: str, elements: Iterable[bytes]) -> list[NftMessage]:
        flags = nl.CREATE if kind == nl.NEWSETELEM else 0
        head = self._table + text(2, name)
        return [NftMessage(kind, head + nested_attribute(3, content), flags) for content in _batch_elements(elements)]

    def _rule(self, chain: str, rule: Rule) -> Iterator[NftMessage]:
        expressions = b""
        for statement in rule:
            name = ""
            if statement.set is not None:
                name = f"__{'map' if statement.set.flags & x.SET_MAP else 'set'}{next(self._anonymous)}"
                yield self._anonymous_set(name, statement.set)
                elements = (attribute(kind | 0x8000, value) for kind, value in attribute_list(statement.set.elements))
                yield from self._element_messages(nl.NEWSETELEM, name, elements)
            expressions += statement.encode(name)
        payload = self._table + text(2, chain) + nested_attribute(4, expressions)
        yield NftMessage(nl.NEWRULE, payload, nl.CREATE | nl.APPEND)

    def _anonymous_set(self, name: str, anonymous: AnonymousSet) -> NftMessage:
        payload = self._key(name, anonymous.flags, anonymous.key_type, anonymous.key_length)
        if anonymous.flags & x.SET_MAP:
            payload += number(6, anonymous.data_type)
            if anonymous.data_length:
                payload += number(7, anonymous.data_length)
        payload += nested_attribute(9, number(1, anonymous.size)) + _key_order(anonymous.key_order)
        return NftMessage(nl.NEWSET, payload, nl.CREATE)


def _key_order(order: int) -> bytes:
    """Return the user data of a set that tells nft in which byte order to print its keys."""
    return attribute(13, struct.pack("=BBI", _SET_KEY_ORDER, 4, order))


def _batch_elements(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Join elements to lists that fit into a message each."""
    joined: list[bytes] = []
    length = 0
    for element in elements:
        if length + len(element) > _MAX_LIST:
            yield b"".join(joined)
            joined, length = [], 0
        joined.append(element)
        length += len(element)
    if joined:
        yield b"".join(joined)
