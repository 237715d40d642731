"""The nftables table that admits VXLAN packets of the cluster from its machines only.

VXLAN itself accepts packets from everybody. A pod could otherwise send a machine a frame, inside of which is a packet
with the address of another pod, and so pass network policies. The header of the tunnel is read, as other programs may
use the same port. A machine may forward packets of two others. What pods send to other machines is checked before it
gets the address of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import text_attribute
from sampan.host.netlink.nftables import NftSocket
from sampan.network.mesh.config import VXLAN_PORT
from sampan.network.nft import run_nft

_IDENTIFIER = "@th,96,24"
"""The network identifier, which follows eight bytes of UDP and four of VXLAN."""


class TunnelRules:
    """For use by one thread."""

    def __init__(self, link: str, identifier: int) -> None:
        self._table, self._identifier = f"sampan-tunnel-{link}", identifier
        self._text = ""

    def ensure(self, peers: Iterable[str]) -> None:
        """Make the table admit exactly these addresses of machines. Raise NftError or OSError if that fails."""
        text = tunnel_rules_text(self._table, self._identifier, peers)
        if text != self._text or not self._exists():
            run_nft("-f", "-", text=text)
            self._text = text

    def remove(self) -> None:
        self._text = ""
        if self._exists():
            run_nft("delete", "table", "inet", self._table)

    def _exists(self) -> bool:
        nftables = NftSocket(nl.NFPROTO_INET)
        try:
            return nftables.get(nl.NFT_MSG_GETTABLE, text_attribute(nl.NFTA_TABLE_NAME, self._table)) is not None
        finally:
            nftables.close()


def tunnel_rules_text(table: str, identifier: int, peers: Iterable[str]) -> str:
    """Return the text that replaces the table. Pure."""
    addresses = sorted(map(ip_address, peers), key=lambda address: (address.version, address))
    packets = f"udp dport {VXLAN_PORT} {_IDENTIFIER} {identifier:#08x}"
    lines = [f"add table inet {table}", f"delete table inet {table}", f"table inet {table} {{"]
    for version, type in ((4, "ipv4_addr"), (6, "ipv6_addr")):
        texts = ", ".join(str(address) for address in addresses if address.version == version)
        elements = f"elements = {{ {texts} }}" if texts else ""
        lines.append(f"  set peers{version} {{ type {type}; {elements} }}")
    for hook in ("input", "forward"):
        lines += [
            f"  chain {hook} {{",
            f"    type filter hook {hook} priority mangle; policy accept;",
            f"    meta nfproto ipv4 {packets} ip saddr != @peers4 drop",
            f"    meta nfproto ipv6 {packets} ip6 saddr != @peers6 drop",
            "  }",
        ]
    return "\n".join([*lines, "}", ""])
