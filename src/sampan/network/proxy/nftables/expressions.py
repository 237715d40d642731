"""Statements of nftables rules: each has its text, as `nft` reads it, and the expressions that the kernel executes.

Text and expressions of a statement are written side by side. A test loads the same rules from the text and from the
expressions, and compares what the kernel lists.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import attribute, be32_attribute, nested_attribute, text_attribute
from sampan.network.proxy.nftables.families import IPFamily

_UNSIGNED = 1 << 32
_ACTIONS = {
    "drop": nl.NF_DROP,
    "accept": nl.NF_ACCEPT,
    "jump": _UNSIGNED + nl.NFT_JUMP,
    "goto": _UNSIGNED + nl.NFT_GOTO,
    "return": _UNSIGNED + nl.NFT_RETURN,
}
PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}

INTEGER_TYPE, IPV4_TYPE, IPV6_TYPE, PROTOCOL_TYPE, PORT_TYPE = 4, 7, 8, 12, 13
"""The types of keys and data, as nft numbers them. The kernel only stores them."""
_TYPE_BITS = 6
_HOST_ORDER, NETWORK_ORDER = 1, 2
"""The byte orders of keys, as nft numbers them."""
_STATE_NEW = 1 << nl.IP_CT_NEW + 1
"""NF_CT_STATE_BIT(IP_CT_NEW)."""
_DESTINATION_PORT_OFFSET, _PORT_LENGTH = 2, 2

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymousSet:
    """A set or map that belongs to one rule."""

    flags: int
    key_type: int
    key_length: int
    data_type: int = 0
    data_length: int = 0
    key_order: int = NETWORK_ORDER
    size: int
    elements: bytes
    """A list of encoded elements."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a rule. Statements with the same text are equal."""

    text: str
    before: bytes = field(default=b"", compare=False, repr=False)
    """Encoded expressions; those before the lookup if there is an anonymous set."""
    set: AnonymousSet | None = field(default=None, compare=False, repr=False)
    lookup_target: int | None = field(default=None, compare=False)
    """The register that a lookup in the anonymous map fills. None for a set."""
    is_inverted: bool = field(default=False, compare=False)
    after: bytes = field(default=b"", compare=False, repr=False)

    def encode(self, set_name: str) -> bytes:
        """Return the expressions. The anonymous set, if there is one, has this name."""
        if self.set is None:
            return self.before
        return self.before + _lookup(set_name, self.lookup_target, is_inverted=self.is_inverted) + self.after


Rule = tuple[Statement, ...]


def rule_text(rule: Rule) -> str:
    return " ".join(statement.text for statement in rule)


# -- expressions -------------------------------------------------------------------------------------------------------


def _expression(name: str, *values: bytes) -> bytes:
    data = nested_attribute(nl.NFTA_EXPR_DATA, *values)
    return nested_attribute(nl.NFTA_LIST_ELEM, text_attribute(nl.NFTA_EXPR_NAME, name), data)


def _register(offset: int) -> int:
    """Return the register at an offset in bytes from the first one, as nft numbers them."""
    if offset % nl.NFT_REG_SIZE == 0:
        return nl.NFT_REG_1 + offset // nl.NFT_REG_SIZE
    return nl.NFT_REG32_00 + offset // nl.NFT_REG32_SIZE


def join_types(*types: int) -> int:
    """Return the type of concatenated data, as nft numbers it."""
    joined = 0
    for type in types:
        joined = joined << _TYPE_BITS | type
    return joined


def _payload(base: int, offset: int, length: int, register: int) -> bytes:
    return _expression(
        "payload",
        be32_attribute(nl.NFTA_PAYLOAD_DREG, register),
        be32_attribute(nl.NFTA_PAYLOAD_BASE, base),
        be32_attribute(nl.NFTA_PAYLOAD_OFFSET, offset),
        be32_attribute(nl.NFTA_PAYLOAD_LEN, length),
    )


def _network(offset: int, length: int, register: int = nl.NFT_REG_1) -> bytes:
    return _payload(nl.NFT_PAYLOAD_NETWORK_HEADER, offset, length, register)


def _destination_port(register: int) -> bytes:
    return _payload(nl.NFT_PAYLOAD_TRANSPORT_HEADER, _DESTINATION_PORT_OFFSET, _PORT_LENGTH, register)


def _meta(key: int, register: int = nl.NFT_REG_1) -> bytes:
    return _expression("meta", be32_attribute(nl.NFTA_META_DREG, register), be32_attribute(nl.NFTA_META_KEY, key))


def _ct(key: int) -> bytes:
    return _expression("ct", be32_attribute(nl.NFTA_CT_DREG, nl.NFT_REG_1), be32_attribute(nl.NFTA_CT_KEY, key))


def _data(type: int, value: bytes) -> bytes:
    """Encode a value in an attribute of this type."""
    return nested_attribute(type, attribute(nl.NFTA_DATA_VALUE, value))


def _compare(value: bytes, operator: int = nl.NFT_CMP_EQ) -> bytes:
    return _expression(
        "cmp",
        be32_attribute(nl.NFTA_CMP_SREG, nl.NFT_REG_1),
        be32_attribute(nl.NFTA_CMP_OP, operator),
        _data(nl.NFTA_CMP_DATA, value),
    )


def _bitwise(length: int, mask: bytes, xor: bytes) -> bytes:
    return _expression(
        "bitwise",
        be32_attribute(nl.NFTA_BITWISE_SREG, nl.NFT_REG_1),
        be32_attribute(nl.NFTA_BITWISE_DREG, nl.NFT_REG_1),
        be32_attribute(nl.NFTA_BITWISE_LEN, length),
        _data(nl.NFTA_BITWISE_MASK, mask),
        _data(nl.NFTA_BITWISE_XOR, xor),
    )


def _lookup(set_name: str, target: int | None = None, *, is_inverted: bool = False) -> bytes:
    values = [text_attribute(nl.NFTA_LOOKUP_SET, set_name), be32_attribute(nl.NFTA_LOOKUP_SREG, nl.NFT_REG_1)]
    if target is not None:
        values.append(be32_attribute(nl.NFTA_LOOKUP_DREG, target))
    if is_inverted:
        values.append(be32_attribute(nl.NFTA_LOOKUP_FLAGS, nl.NFT_LOOKUP_F_INV))
    return _expression("lookup", *values)


def _immediate(register: int, value: bytes) -> bytes:
    load = _data(nl.NFTA_IMMEDIATE_DATA, value)
    return _expression("immediate", be32_attribute(nl.NFTA_IMMEDIATE_DREG, register), load)


def encode_action(action: str) -> bytes:
    """Return the data of a verdict, such as `drop` or `goto CHAIN`."""
    name, _, chain = action.partition(" ")
    values = [be32_attribute(nl.NFTA_VERDICT_CODE, _ACTIONS[name])]
    if chain:
        values.append(text_attribute(nl.NFTA_VERDICT_CHAIN, chain))
    return nested_attribute(nl.NFTA_DATA_VERDICT, *values)


def encode_element(key: bytes, *data: bytes) -> bytes:
    """Encode an element of a set with its key, and in a map with its data."""
    return nested_attribute(nl.NFTA_LIST_ELEM, _data(nl.NFTA_SET_ELEM_KEY, key), *data)


def encode_action_element(key: bytes, action: str) -> bytes:
    """Encode an element of a map with a verdict."""
    return encode_element(key, nested_attribute(nl.NFTA_SET_ELEM_DATA, encode_action(action)))


# -- conditions --------------------------------------------------------------------------------------------------------


def ct_state_new() -> Statement:
    mask = struct.pack("=I", _STATE_NEW)
    return Statement(
        "ct state new", _ct(nl.NFT_CT_STATE) + _bitwise(4, mask, bytes(4)) + _compare(bytes(4), nl.NFT_CMP_NEQ)
    )


def ct_status_dnat() -> Statement:
    mask = struct.pack("=I", nl.IPS_DST_NAT)
    return Statement(
        "ct status dnat", _ct(nl.NFT_CT_STATUS) + _bitwise(4, mask, bytes(4)) + _compare(bytes(4), nl.NFT_CMP_NEQ)
    )


def protocol_is(protocol: str) -> Statement:
    return Statement(f"meta l4proto {protocol}", _meta(nl.NFT_META_L4PROTO) + _compare(bytes([PROTOCOLS[protocol]])))


def _address_in(family: IPFamily, side: str, offset: int, cidr: str, *, is_inverted: bool) -> Statement:
    address, _, length = cidr.partition("/")
    value, bits = family.pack(address), int(length or family.length * 8)
    load = _network(offset, family.length)
    if bits < family.length * 8:
        mask = ((1 << bits) - 1 << family.length * 8 - bits).to_bytes(family.length, "big")
        load += _bitwise(family.length, mask, bytes(family.length))
    operator = "!= " if is_inverted else ""
    compare = _compare(value, nl.NFT_CMP_NEQ if is_inverted else nl.NFT_CMP_EQ)
    return Statement(f"{family.nft} {side} {operator}{cidr}", load + compare)


def destination_in(family: IPFamily, cidr: str, *, is_inverted: bool = False) -> Statement:
    return _address_in(family, "daddr", family.destination_offset, cidr, is_inverted=is_inverted)


def destination_in_set(family: IPFamily, name: str) -> Statement:
    load = _network(family.destination_offset, family.length)
    return Statement(f"{family.nft} daddr @{name}", load + _lookup(name))


def source_in_set(family: IPFamily, name: str) -> Statement:
    return Statement(f"{family.nft} saddr @{name}", _network(family.source_offset, family.length) + _lookup(name))


def source_in_networks(family: IPFamily, networks: Sequence[Network], *, is_inverted: bool = False) -> Statement:
    return _address_in_networks(family, "saddr", family.source_offset, networks, is_inverted=is_inverted)


def destination_in_networks(family: IPFamily, networks: Sequence[Network]) -> Statement:
    return _address_in_networks(family, "daddr", family.destination_offset, networks, is_inverted=False)


def _address_in_networks(
    family: IPFamily, side: str, offset: int, networks: Sequence[Network], *, is_inverted: bool
) -> Statement:
    merged = merge(networks)
    if len(merged) == 1:
        return _address_in(family, side, offset, _network_text(merged[0]), is_inverted=is_inverted)
    elements, count = _intervals(family, merged)
    operator = "!= " if is_inverted else ""
    return Statement(
        f"{family.nft} {side} {operator}{{ {', '.join(map(_network_text, merged))} }}",
        before=_network(offset, family.length),
        set=AnonymousSet(
            flags=nl.NFT_SET_ANONYMOUS | nl.NFT_SET_CONSTANT | nl.NFT_SET_INTERVAL,
            key_type=family.address_type,
            key_length=family.length,
            size=count,
            elements=elements,
        ),
        is_inverted=is_inverted,
    )


def merge(networks: Sequence[Network]) -> list[Network]:
    """Return the networks in order without those that others contain: nftables refuses intervals that overlap."""
    merged: list[Network] = []
    for network in sorted(networks, key=lambda n: (int(n.network_address), n.prefixlen)):
        if not merged or int(network.network_address) > int(merged[-1].broadcast_address):
            merged.append(network)
    return merged


def _network_text(network: Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


_INTERVAL_END = be32_attribute(nl.NFTA_SET_ELEM_FLAGS, nl.NFT_SET_ELEM_INTERVAL_END)


def _intervals(family: IPFamily, networks: Sequence[Network]) -> tuple[bytes, int]:
    """Return the elements of an interval set: the first address of each interval, and the first one after it."""
    bounds: list[tuple[int, bool]] = []
    for network in networks:
        start, end = int(network.network_address), int(network.broadcast_address) + 1
        if bounds and bounds[-1][0] == start:
            bounds.pop()  # the interval continues the one before
        else:
            bounds.append((start, False))
        if end >> family.length * 8 == 0:
            bounds.append((end, True))
    if not bounds or bounds[0][0] != 0:
        bounds.insert(0, (0, True))
    elements = b"".join(
        encode_element(bound.to_bytes(family.length, "big"), *([_INTERVAL_END] if is_end else []))
        for bound, is_end in bounds
    )
    return elements, len(bounds)


def interface_is(name: str, *, is_inverted: bool = False) -> Statement:
    """Return the statement that matches the incoming interface. A name that ends with `*` is a prefix."""
    value = name[:-1].encode() if name.endswith("*") else name.encode().ljust(nl.IFNAMSIZ, b"\0")
    operator = "!= " if is_inverted else ""
    compare = _compare(value, nl.NFT_CMP_NEQ if is_inverted else nl.NFT_CMP_EQ)
    return Statement(f'iifname {operator}"{name}"', _meta(nl.NFT_META_IIFNAME) + compare)


def _address_type_is_local(side: str, flag: int) -> Statement:
    fib = _expression(
        "fib",
        be32_attribute(nl.NFTA_FIB_DREG, nl.NFT_REG_1),
        be32_attribute(nl.NFTA_FIB_RESULT, nl.NFT_FIB_RESULT_ADDRTYPE),
        be32_attribute(nl.NFTA_FIB_FLAGS, flag),
    )
    return Statement(f"fib {side} type local", fib + _compare(struct.pack("=I", nl.RTN_LOCAL)))


def source_is_local() -> Statement:
    return _address_type_is_local("saddr", nl.NFTA_FIB_F_SADDR)


def destination_is_local() -> Statement:
    return _address_type_is_local("daddr", nl.NFTA_FIB_F_DADDR)


def is_marked(mark: int) -> Statement:
    load = _meta(nl.NFT_META_MARK) + _bitwise(4, struct.pack("=I", mark), bytes(4))
    return Statement(f"mark and {mark:#x} != 0", load + _compare(bytes(4), nl.NFT_CMP_NEQ))


def hairpin_in_set(family: IPFamily, name: str) -> Statement:
    """Return the statement that matches connections whose source, destination, protocol and destination port are in a
    set."""
    ip, length = family.nft, family.length
    load = (
        _network(family.source_offset, length)
        + _network(family.destination_offset, length, _register(length))
        + _meta(nl.NFT_META_L4PROTO, _register(2 * length))
        + _destination_port(_register(2 * length + 4))
    )
    return Statement(f"{ip} saddr . {ip} daddr . meta l4proto . th dport @{name}", load + _lookup(name))


# -- verdicts and changes ----------------------------------------------------------------------------------------------


def action(value: str) -> Statement:
    """Return the statement with this verdict: `drop`, `jump CHAIN` or `goto CHAIN`."""
    register = be32_attribute(nl.NFTA_IMMEDIATE_DREG, nl.NFT_REG_VERDICT)
    data = nested_attribute(nl.NFTA_IMMEDIATE_DATA, encode_action(value))
    return Statement(value, _expression("immediate", register, data))


def goto(chain: str) -> Statement:
    return action(f"goto {chain}")


def jump(chain: str) -> Statement:
    return action(f"jump {chain}")


def reject(family: IPFamily) -> Statement:
    kind = be32_attribute(nl.NFTA_REJECT_TYPE, nl.NFT_REJECT_ICMP_UNREACH)
    code = attribute(nl.NFTA_REJECT_ICMP_CODE, bytes([family.port_unreachable]))
    return Statement("reject", _expression("reject", kind, code))


def add_mark(mark: int) -> Statement:
    change = _bitwise(4, struct.pack("=I", 0xFFFFFFFF ^ mark), struct.pack("=I", mark))
    return Statement(f"mark set mark or {mark:#x}", _meta(nl.NFT_META_MARK) + change + _set_mark())


def toggle_mark(mark: int) -> Statement:
    change = _bitwise(4, struct.pack("=I", 0xFFFFFFFF), struct.pack("=I", mark))
    return Statement(f"mark set mark xor {mark:#x}", _meta(nl.NFT_META_MARK) + change + _set_mark())


def _set_mark() -> bytes:
    register = be32_attribute(nl.NFTA_META_SREG, nl.NFT_REG_1)
    return _expression("meta", be32_attribute(nl.NFTA_META_KEY, nl.NFT_META_MARK), register)


def masquerade() -> Statement:
    flags = be32_attribute(nl.NFTA_MASQ_FLAGS, nl.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
    return Statement("masquerade fully-random", _expression("masq", flags))


def dispatch_by_destination(family: IPFamily, map_name: str) -> Statement:
    """Return the statement that looks up destination address, protocol and port in a verdict map."""
    load = (
        _network(family.destination_offset, family.length)
        + _meta(nl.NFT_META_L4PROTO, _register(family.length))
        + _destination_port(_register(family.length + 4))
    )
    name = f"{family.nft} daddr . meta l4proto . th dport vmap @{map_name}"
    return Statement(name, load + _lookup(map_name, nl.NFT_REG_VERDICT))


def dispatch_by_port(map_name: str) -> Statement:
    """Return the statement that looks up protocol and destination port in a verdict map."""
    load = _meta(nl.NFT_META_L4PROTO) + _destination_port(_register(4))
    return Statement(f"meta l4proto . th dport vmap @{map_name}", load + _lookup(map_name, nl.NFT_REG_VERDICT))


def update_source(family: IPFamily, set_name: str) -> Statement:
    """Return the statement that adds the source address to a set, or renews its timeout."""
    dynset = _expression(
        "dynset",
        text_attribute(nl.NFTA_DYNSET_SET_NAME, set_name),
        be32_attribute(nl.NFTA_DYNSET_OP, nl.NFT_DYNSET_OP_UPDATE),
        be32_attribute(nl.NFTA_DYNSET_SREG_KEY, nl.NFT_REG_1),
    )
    load = _network(family.source_offset, family.length)
    return Statement(f"update @{set_name} {{ {family.nft} saddr }}", load + dynset)


def dnat(family: IPFamily, address: str, port: int) -> Statement:
    destination = f"[{address}]:{port}" if family.length == 16 else f"{address}:{port}"
    port_register = _register(nl.NFT_REG_SIZE)
    load = _immediate(nl.NFT_REG_1, family.pack(address)) + _immediate(port_register, port.to_bytes(2, "big"))
    flags = be32_attribute(nl.NFTA_NAT_FLAGS, nl.NF_NAT_RANGE_PROTO_SPECIFIED)
    return Statement(f"dnat to {destination}", load + _nat(family, port_register, flags))


def random_dnat(family: IPFamily, destinations: Sequence[tuple[str, int]]) -> Statement:
    """Return the statement that translates the destination to one of these addresses and ports at random."""
    length = family.length + 4
    element = struct.Struct(f"=HHHHHHIHHHH{family.length}sHxx")
    value_size, key_size = length + 4, 8
    elements = b"".join(
        element.pack(
            4 + 4 + key_size + 4 + value_size,
            nl.NFTA_LIST_ELEM | nl.NLA_F_NESTED,
            4 + key_size,
            nl.NFTA_SET_ELEM_KEY | nl.NLA_F_NESTED,
            key_size,
            nl.NFTA_DATA_VALUE,
            index,
            4 + value_size,
            nl.NFTA_SET_ELEM_DATA | nl.NLA_F_NESTED,
            value_size,
            nl.NFTA_DATA_VALUE,
            family.pack(address),
            socket.htons(port),
        )
        for index, (address, port) in enumerate(destinations)
    )
    pairs = ", ".join(f"{index} : {address} . {port}" for index, (address, port) in enumerate(destinations))
    return Statement(
        f"dnat {family.nft} addr . port to numgen random mod {len(destinations)} map {{ {pairs} }}",
        before=_random(len(destinations)),
        set=_numbered_map(len(destinations), elements, join_types(family.address_type, PORT_TYPE), length),
        lookup_target=nl.NFT_REG_1,
        after=_nat(family, _register(family.length)),
    )


def random_action(actions: Sequence[str]) -> Statement:
    """Return the statement that chooses one of the verdicts at random."""
    elements = b"".join(encode_action_element(struct.pack("=I", index), action) for index, action in enumerate(actions))
    pairs = ", ".join(f"{index} : {action}" for index, action in enumerate(actions))
    return Statement(
        f"numgen random mod {len(actions)} vmap {{ {pairs} }}",
        before=_random(len(actions)),
        set=_numbered_map(len(actions), elements, nl.NFT_DATA_VERDICT, 0),
        lookup_target=nl.NFT_REG_VERDICT,
    )


def _random(modulus: int) -> bytes:
    return _expression(
        "numgen",
        be32_attribute(nl.NFTA_NG_DREG, nl.NFT_REG_1),
        be32_attribute(nl.NFTA_NG_MODULUS, modulus),
        be32_attribute(nl.NFTA_NG_TYPE, nl.NFT_NG_RANDOM),
        be32_attribute(nl.NFTA_NG_OFFSET, 0),
    )


def _numbered_map(size: int, elements: bytes, data_type: int, data_length: int) -> AnonymousSet:
    return AnonymousSet(
        flags=nl.NFT_SET_ANONYMOUS | nl.NFT_SET_CONSTANT | nl.NFT_SET_MAP,
        key_type=INTEGER_TYPE,
        key_length=4,
        data_type=data_type,
        data_length=data_length,
        key_order=_HOST_ORDER,
        size=size,
        elements=elements,
    )


def _nat(family: IPFamily, port_register: int, *more: bytes) -> bytes:
    return _expression(
        "nat",
        be32_attribute(nl.NFTA_NAT_TYPE, nl.NFT_NAT_DNAT),
        be32_attribute(nl.NFTA_NAT_FAMILY, family.number),
        be32_attribute(nl.NFTA_NAT_REG_ADDR_MIN, nl.NFT_REG_1),
        be32_attribute(nl.NFTA_NAT_REG_PROTO_MIN, port_register),
        *more,
    )
