"""Names that tell whose a thing is: links, the table, hardware addresses. A leftover is known by its name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from ipaddress import ip_interface

_BRIDGE = re.compile(r"[a-z][a-z0-9]{0,7}")
"""A link's name has 15 letters at most: the bridge's, a dash, and six for the pod. No dash in it, so that no bridge's
links look like another's."""


def check_bridge(name: str) -> None:
    if not _BRIDGE.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a bridge: a letter, then up to seven letters and digits, all small")


def bridge_for(identity: str) -> str:
    """A bridge's name for a node of several on one machine: the same for the same identity."""
    return f"sp{_digest(identity)[:6]}"


def link_for(bridge: str, uid: str, taken: Container[str] = ()) -> str:
    """The node's end of a pod's pair of links."""
    name, again = "", 0
    while not name or name in taken:
        name, again = f"{bridge}-{_digest(f'{uid} {again}')[:6]}", again + 1
    return name


def is_link_of(bridge: str, name: str) -> bool:
    return name.startswith(f"{bridge}-")


def table_for(bridge: str) -> str:
    return f"sampan-pods-{bridge}"


def mark_for(bridge: str) -> str:
    """The comment of rules that stand in others' chains."""
    return f"sampan: pods of {bridge}"


def hardware_for(address: str) -> str:
    """By the address, so that whoever still remembers an address that changed hands remembers the right hardware."""
    packed = ip_interface(address).ip.packed
    last = packed if len(packed) == 4 else hashlib.sha256(packed).digest()[:4]
    return ":".join(f"{byte:02x}" for byte in b"\x0a\x58" + last)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = ["bridge_for", "check_bridge", "hardware_for", "is_link_of", "link_for", "mark_for", "table_for"]
