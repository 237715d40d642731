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

from sampan.network.nfnetlink import attribute, nested_attribute, number, text
from sampan.network.proxy.nftables.families import IPFamily

_CONTINUED = 0x100000000
ACTION_TYPE = 0xFFFFFF00
_ACTIONS = {"drop": 0, "accept": 1, "jump": _CONTINUED - 3, "goto": _CONTINUED - 4, "return": _CONTINUED - 5}
PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}

SET_ANONYMOUS, SET_CONSTANT, SET_INTERVAL, SET_MAP, SET_TIMEOUT, SET_DYNAMIC = 1, 2, 4, 8, 16, 32
_HOST_ORDER, NETWORK_ORDER = 1, 2
_EQUAL, _UNEQUAL = 0, 1
_MARK, _IIFNAME, _L4PROTO = 3, 6, 16
_STATE, _STATUS = 0, 2
_NEW, _DNAT = 8, 32
_SADDR, _DADDR = 1, 2
_LOCAL = 2
_FULLY_RANDOM, _PROTO_SPECIFIED = 16, 2
_INTERFACE_NAME_SIZE = 16

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
    """The register that a lookup in the anonymous map fills: 0 for a verdict. None for a set."""
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
    return nested_attribute(1, text(1, name), nested_attribute(2, *values))


def _register(offset: int) -> int:
    """Return the register at an offset in bytes from the first one, as nft numbers them."""
    return 1 + offset // 16 if offset % 16 == 0 else 8 + offset // 4


def _payload(base: int, offset: int, length: int, register: int = 1) -> bytes:
    return _expression("payload", number(1, register), number(2, base), number(3, offset), number(4, length))


def _network(offset: int, length: int, register: int = 1) -> bytes:
    return _payload(1, offset, length, register)


def _destination_port(register: int) -> bytes:
    return _payload(2, 2, 2, register)


def _meta(key: int, register: int = 1) -> bytes:
    return _expression("meta", number(1, register), number(2, key))


def _compare(value: bytes, operator: int = _EQUAL) -> bytes:
    return _expression("cmp", number(1, 1), number(2, operator), nested_attribute(3, attribute(1, value)))


def _bitwise(length: int, mask: bytes, xor: bytes) -> bytes:
    mask_and_xor = nested_attribute(4, attribute(1, mask)), nested_attribute(5, attribute(1, xor))
    return _expression("bitwise", number(1, 1), number(2, 1), number(3, length), *mask_and_xor)


def _lookup(set_name: str, target: int | None = None, *, is_inverted: bool = False) -> bytes:
    values = [text(1, set_name), number(2, 1)]
    if target is not None:
        values.append(number(3, target))
    if is_inverted:
        values.append(number(5, 1))
    return _expression("lookup", *values)


def _immediate(register: int, value: bytes) -> bytes:
    return _expression("immediate", number(1, register), nested_attribute(2, attribute(1, value)))


def encode_action(action: str) -> bytes:
    """Return the data of a verdict, such as `drop` or `goto CHAIN`."""
    name, _, chain = action.partition(" ")
    values = [number(1, _ACTIONS[name])]
    if chain:
        values.append(text(2, chain))
    return nested_attribute(2, *values)


# -- conditions --------------------------------------------------------------------------------------------------------


def ct_state_new() -> Statement:
    mask = struct.pack("=I", _NEW)
    ct = _expression("ct", number(1, 1), number(2, _STATE))
    return Statement("ct state new", ct + _bitwise(4, mask, bytes(4)) + _compare(bytes(4), _UNEQUAL))


def ct_status_dnat() -> Statement:
    mask = struct.pack("=I", _DNAT)
    ct = _expression("ct", number(1, 1), number(2, _STATUS))
    return Statement("ct status dnat", ct + _bitwise(4, mask, bytes(4)) + _compare(bytes(4), _UNEQUAL))


def protocol_is(protocol: str) -> Statement:
    return Statement(f"meta l4proto {protocol}", _meta(_L4PROTO) + _compare(bytes([PROTOCOLS[protocol]])))


def _address_in(family: IPFamily, side: str, offset: int, cidr: str, *, is_inverted: bool) -> Statement:
    address, _, length = cidr.partition("/")
    value, bits = family.pack(address), int(length or family.length * 8)
    load = _network(offset, family.length)
    if bits < family.length * 8:
        mask = ((1 << bits) - 1 << family.length * 8 - bits).to_bytes(family.length, "big")
        load += _bitwise(family.length, mask, bytes(family.length))
    operator = "!= " if is_inverted else ""
    compare = _compare(value, _UNEQUAL if is_inverted else _EQUAL)
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
            flags=SET_ANONYMOUS | SET_CONSTANT | SET_INTERVAL,
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
        nested_attribute(
            1,
            nested_attribute(1, attribute(1, bound.to_bytes(family.length, "big"))),
            *([number(3, 1)] if is_end else []),
        )
        for bound, is_end in bounds
    )
    return elements, len(bounds)


def interface_is(name: str, *, is_inverted: bool = False) -> Statement:
    """Return the statement that matches the incoming interface. A name that ends with `*` is a prefix."""
    value = name[:-1].encode() if name.endswith("*") else name.encode().ljust(_INTERFACE_NAME_SIZE, b"\0")
    operator = "!= " if is_inverted else ""
    compare = _compare(value, _UNEQUAL if is_inverted else _EQUAL)
    return Statement(f'iifname {operator}"{name}"', _meta(_IIFNAME) + compare)


def _address_type_is_local(side: str, flag: int) -> Statement:
    fib = _expression("fib", number(1, 1), number(2, 3), number(3, flag))
    return Statement(f"fib {side} type local", fib + _compare(struct.pack("=I", _LOCAL)))


def source_is_local() -> Statement:
    return _address_type_is_local("saddr", _SADDR)


def destination_is_local() -> Statement:
    return _address_type_is_local("daddr", _DADDR)


def is_marked(mark: int) -> Statement:
    load = _meta(_MARK) + _bitwise(4, struct.pack("=I", mark), bytes(4))
    return Statement(f"mark and {mark:#x} != 0", load + _compare(bytes(4), _UNEQUAL))


def hairpin_in_set(family: IPFamily, name: str) -> Statement:
    """Return the statement that matches connections whose source, destination, protocol and destination port are in a
    set."""
    ip, length = family.nft, family.length
    load = (
        _network(family.source_offset, length)
        + _network(family.destination_offset, length, _register(length))
        + _meta(_L4PROTO, _register(2 * length))
        + _destination_port(_register(2 * length + 4))
    )
    return Statement(f"{ip} saddr . {ip} daddr . meta l4proto . th dport @{name}", load + _lookup(name))


# -- verdicts and changes ----------------------------------------------------------------------------------------------


def action(value: str) -> Statement:
    """Return the statement with this verdict: `drop`, `jump CHAIN` or `goto CHAIN`."""
    return Statement(value, _expression("immediate", number(1, 0), nested_attribute(2, encode_action(value))))


def goto(chain: str) -> Statement:
    return action(f"goto {chain}")


def jump(chain: str) -> Statement:
    return action(f"jump {chain}")


def reject(family: IPFamily) -> Statement:
    return Statement("reject", _expression("reject", number(1, 0), attribute(2, bytes([family.port_unreachable]))))


def add_mark(mark: int) -> Statement:
    change = _bitwise(4, struct.pack("=I", 0xFFFFFFFF ^ mark), struct.pack("=I", mark))
    return Statement(f"mark set mark or {mark:#x}", _meta(_MARK) + change + _set_mark())


def toggle_mark(mark: int) -> Statement:
    change = _bitwise(4, struct.pack("=I", 0xFFFFFFFF), struct.pack("=I", mark))
    return Statement(f"mark set mark xor {mark:#x}", _meta(_MARK) + change + _set_mark())


def _set_mark() -> bytes:
    return _expression("meta", number(2, _MARK), number(3, 1))


def masquerade() -> Statement:
    return Statement("masquerade fully-random", _expression("masq", number(1, _FULLY_RANDOM)))


def dispatch_by_destination(family: IPFamily, map_name: str) -> Statement:
    """Return the statement that looks up destination address, protocol and port in a verdict map."""
    load = (
        _network(family.destination_offset, family.length)
        + _meta(_L4PROTO, _register(family.length))
        + _destination_port(_register(family.length + 4))
    )
    name = f"{family.nft} daddr . meta l4proto . th dport vmap @{map_name}"
    return Statement(name, load + _lookup(map_name, 0))


def dispatch_by_port(map_name: str) -> Statement:
    """Return the statement that looks up protocol and destination port in a verdict map."""
    load = _meta(_L4PROTO) + _destination_port(_register(4))
    return Statement(f"meta l4proto . th dport vmap @{map_name}", load + _lookup(map_name, 0))


def update_source(family: IPFamily, set_name: str) -> Statement:
    """Return the statement that adds the source address to a set, or renews its timeout."""
    dynset = _expression("dynset", text(1, set_name), number(3, 1), number(4, 1))
    load = _network(family.source_offset, family.length)
    return Statement(f"update @{set_name} {{ {family.nft} saddr }}", load + dynset)


def dnat(family: IPFamily, address: str, port: int) -> Statement:
    destination = f"[{address}]:{port}" if family.length == 16 else f"{address}:{port}"
    load = _immediate(1, family.pack(address)) + _immediate(2, port.to_bytes(2, "big"))
    return Statement(f"dnat to {destination}", load + _nat(family, 2, number(7, _PROTO_SPECIFIED)))


def random_dnat(family: IPFamily, destinations: Sequence[tuple[str, int]]) -> Statement:
    """Return the statement that translates the destination to one of these addresses and ports at random."""
    length = family.length + 4
    element = struct.Struct(f"=HHHHHHIHHHH{family.length}sHxx")
    value_size, key_size = length + 4, 8
    elements = b"".join(
        element.pack(
            4 + 4 + key_size + 4 + value_size,
            0x8001,
            4 + key_size,
            0x8001,
            key_size,
            1,
            index,
            4 + value_size,
            0x8002,
            value_size,
            1,
            family.pack(address),
            socket.htons(port),
        )
        for index, (address, port) in enumerate(destinations)
    )
    pairs = ", ".join(f"{index} : {address} . {port}" for index, (address, port) in enumerate(destinations))
    return Statement(
        f"dnat {family.nft} addr . port to numgen random mod {len(destinations)} map {{ {pairs} }}",
        before=_random(len(destinations)),
        set=_numbered_map(len(destinations), elements, (family.address_type << 6) | 13, length),
        lookup_target=1,
        after=_nat(family, _register(family.length)),
    )


def random_action(actions: Sequence[str]) -> Statement:
    """Return the statement that chooses one of the verdicts at random."""
    elements = b"".join(
        nested_attribute(
            1, nested_attribute(1, attribute(1, struct.pack("=I", index))), nested_attribute(2, encode_action(action))
        )
        for index, action in enumerate(actions)
    )
    pairs = ", ".join(f"{index} : {action}" for index, action in enumerate(actions))
    return Statement(
        f"numgen random mod {len(actions)} vmap {{ {pairs} }}",
        before=_random(len(actions)),
        set=_numbered_map(len(actions), elements, ACTION_TYPE, 0),
        lookup_target=0,
    )


def _random(modulus: int) -> bytes:
    return _expression("numgen", number(1, 1), number(2, modulus), number(3, 1), number(4, 0))


def _numbered_map(size: int, elements: bytes, data_type: int, data_length: int) -> AnonymousSet:
    return AnonymousSet(
        flags=SET_ANONYMOUS | SET_CONSTANT | SET_MAP,
        key_type=4,
        key_length=4,
        data_type=data_type,
        data_length=data_length,
        key_order=_HOST_ORDER,
        size=size,
        elements=elements,
    )


def _nat(family: IPFamily, port_register: int, *more: bytes) -> bytes:
    return _expression("nat", number(1, 1), number(2, family.number), number(3, 1), number(5, port_register), *more)
