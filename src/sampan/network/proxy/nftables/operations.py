"""Changes of a table: each operation has its text for `nft` and its netlink messages."""

from __future__ import annotations

import itertools
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import (
    NetlinkMessage,
    attribute,
    be32_attribute,
    iterate_attributes,
    nested_attribute,
    text_attribute,
)
from sampan.network.proxy.nftables import expressions as x
from sampan.network.proxy.nftables.compiler import ElementKey
from sampan.network.proxy.nftables.expressions import PROTOCOLS, AnonymousSet, Rule, rule_text
from sampan.network.proxy.nftables.families import IPFamily
from sampan.network.proxy.nftables.layout import ADDRESS, PORT, PROTOCOL, SETS_BY_NAME, TABLE, BaseChain, NamedSet

_MAX_LIST = 60_000
"""The length of a list of elements in one message, whose length has 16 bits."""
_TYPES = {PROTOCOL: x.PROTOCOL_TYPE, PORT: x.PORT_TYPE}
_TYPE_NAMES = {PROTOCOL: "inet_proto", PORT: "inet_service"}
_SET_KEY_ORDER, _TABLE_COMMENT = 0, 0
"""Types of user data, as nft numbers them."""
_FIELD_BYTES = 4
"""Parts of a key are padded to a multiple of that."""


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
        self._table = text_attribute(nl.NFTA_TABLE_NAME, TABLE)
        """The table in each message: NFTA_CHAIN_TABLE, NFTA_RULE_TABLE and NFTA_SET_TABLE are the same number."""
        self._identities = itertools.count(1)
        self._anonymous = itertools.count(secrets.randbelow(1 << 40))
        """The numbers of anonymous sets. Without a number the kernel would search all sets of the table for a free one
        each time."""

    def encode(self, operation: Operation) -> list[NetlinkMessage]:
        table = self._table
        match operation:
            case AddTable(comment):
                data = attribute(
                    nl.NFTA_TABLE_USERDATA,
                    struct.pack("BB", _TABLE_COMMENT, len(comment) + 1) + comment.encode() + b"\0",
                )
                return [
                    NetlinkMessage(
                        nl.NFT_MSG_NEWTABLE, table + be32_attribute(nl.NFTA_TABLE_FLAGS, 0) + data, nl.NLM_F_CREATE
                    )
                ]
            case DeleteTable():
                return [NetlinkMessage(nl.NFT_MSG_DELTABLE, table)]
            case AddNamedSet(named):
                return [self._named_set(named)]
            case FlushNamedSet(named):
                return [
                    NetlinkMessage(nl.NFT_MSG_DELSETELEM, table + text_attribute(nl.NFTA_SET_ELEM_LIST_SET, named.name))
                ]
            case AddAffinitySet(name, timeout_s):
                timeout = attribute(nl.NFTA_SET_TIMEOUT, (timeout_s * 1000).to_bytes(8, "big"))
                flags = nl.NFT_SET_EVAL | nl.NFT_SET_TIMEOUT
                key = self._key(name, flags, self._family.address_type, self._family.length)
                return [NetlinkMessage(nl.NFT_MSG_NEWSET, key + timeout + _key_order(x.NETWORK_ORDER), nl.NLM_F_CREATE)]
            case DeleteSet(name):
                return [NetlinkMessage(nl.NFT_MSG_DELSET, table + text_attribute(nl.NFTA_SET_NAME, name))]
            case AddChain(name):
                return [
                    NetlinkMessage(
                        nl.NFT_MSG_NEWCHAIN, table + text_attribute(nl.NFTA_CHAIN_NAME, name), nl.NLM_F_CREATE
                    )
                ]
            case AddBaseChain(chain):
                hook = nested_attribute(
                    nl.NFTA_CHAIN_HOOK,
                    be32_attribute(nl.NFTA_HOOK_HOOKNUM, chain.hook_number),
                    attribute(nl.NFTA_HOOK_PRIORITY, struct.pack(">i", chain.priority)),
                )
                policy = be32_attribute(nl.NFTA_CHAIN_POLICY, nl.NF_ACCEPT)
                payload = table + text_attribute(nl.NFTA_CHAIN_NAME, chain.name) + hook + policy
                payload += text_attribute(nl.NFTA_CHAIN_TYPE, chain.type)
                return [NetlinkMessage(nl.NFT_MSG_NEWCHAIN, payload, nl.NLM_F_CREATE)]
            case FlushChain(name):
                return [NetlinkMessage(nl.NFT_MSG_DELRULE, table + text_attribute(nl.NFTA_RULE_CHAIN, name))]
            case DeleteChain(name):
                return [NetlinkMessage(nl.NFT_MSG_DELCHAIN, table + text_attribute(nl.NFTA_CHAIN_NAME, name))]
            case AddRule(name, rule):
                return list(self._rule(name, rule))
            case AddElements(named, entries):
                encoded = (self._element(named, key, action) for key, action in entries)
                return self._element_messages(nl.NFT_MSG_NEWSETELEM, named.name, encoded)
            case DeleteElements(named, keys):
                encoded = (self._element(named, key, "") for key in keys)
                return self._element_messages(nl.NFT_MSG_DELSETELEM, named.name, encoded)

    def _key(self, name: str, flags: int, key_type: int, length: int) -> bytes:
        return b"".join(
            (
                self._table,
                text_attribute(nl.NFTA_SET_NAME, name),
                be32_attribute(nl.NFTA_SET_FLAGS, flags),
                be32_attribute(nl.NFTA_SET_KEY_TYPE, key_type),
                be32_attribute(nl.NFTA_SET_KEY_LEN, length),
                be32_attribute(nl.NFTA_SET_ID, next(self._identities) & 0x7FFFFFFF),
            )
        )

    def _named_set(self, named: NamedSet) -> NetlinkMessage:
        kind = x.join_types(*(_TYPES.get(part, self._family.address_type) for part in named.key))
        length = sum(self._family.length if part == ADDRESS else _FIELD_BYTES for part in named.key)
        payload = self._key(named.name, nl.NFT_SET_MAP if named.is_map else 0, kind, length)
        if named.is_map:
            payload += be32_attribute(nl.NFTA_SET_DATA_TYPE, nl.NFT_DATA_VERDICT)
        return NetlinkMessage(nl.NFT_MSG_NEWSET, payload + _key_order(x.NETWORK_ORDER), nl.NLM_F_CREATE)

    def _element(self, named: NamedSet, key: ElementKey, action: str) -> bytes:
        value = b"".join(self._field(kind, part) for kind, part in zip(named.key, key.key, strict=True))
        return x.encode_action_element(value, action) if action else x.encode_element(value)

    def _field(self, kind: str, value: str | int) -> bytes:
        if kind == ADDRESS:
            return self._family.pack(str(value))
        if kind == PROTOCOL:
            return bytes([PROTOCOLS[str(value)], 0, 0, 0])
        return int(value).to_bytes(2, "big") + b"\0\0"

    def _element_messages(self, kind: int, name: str, elements: Iterable[bytes]) -> list[NetlinkMessage]:
        flags = nl.NLM_F_CREATE if kind == nl.NFT_MSG_NEWSETELEM else 0
        head = self._table + text_attribute(nl.NFTA_SET_ELEM_LIST_SET, name)
        lists = (nested_attribute(nl.NFTA_SET_ELEM_LIST_ELEMENTS, content) for content in _batch_elements(elements))
        return [NetlinkMessage(kind, head + encoded, flags) for encoded in lists]

    def _rule(self, chain: str, rule: Rule) -> Iterator[NetlinkMessage]:
        expressions = b""
        for statement in rule:
            name = ""
            if statement.set is not None:
                name = f"__{'map' if statement.set.flags & nl.NFT_SET_MAP else 'set'}{next(self._anonymous)}"
                yield self._anonymous_set(name, statement.set)
                elements = (nested_attribute(kind, value) for kind, value in iterate_attributes(statement.set.elements))
                yield from self._element_messages(nl.NFT_MSG_NEWSETELEM, name, elements)
            expressions += statement.encode(name)
        chain_name = text_attribute(nl.NFTA_RULE_CHAIN, chain)
        payload = self._table + chain_name + nested_attribute(nl.NFTA_RULE_EXPRESSIONS, expressions)
        yield NetlinkMessage(nl.NFT_MSG_NEWRULE, payload, nl.NLM_F_CREATE | nl.NLM_F_APPEND)

    def _anonymous_set(self, name: str, anonymous: AnonymousSet) -> NetlinkMessage:
        payload = self._key(name, anonymous.flags, anonymous.key_type, anonymous.key_length)
        if anonymous.flags & nl.NFT_SET_MAP:
            payload += be32_attribute(nl.NFTA_SET_DATA_TYPE, anonymous.data_type)
            if anonymous.data_length:
                payload += be32_attribute(nl.NFTA_SET_DATA_LEN, anonymous.data_length)
        size = be32_attribute(nl.NFTA_SET_DESC_SIZE, anonymous.size)
        payload += nested_attribute(nl.NFTA_SET_DESC, size) + _key_order(anonymous.key_order)
        return NetlinkMessage(nl.NFT_MSG_NEWSET, payload, nl.NLM_F_CREATE)


def _key_order(order: int) -> bytes:
    """Return the user data of a set that tells nft in which byte order to print its keys."""
    return attribute(nl.NFTA_SET_USERDATA, struct.pack("=BBI", _SET_KEY_ORDER, 4, order))


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
