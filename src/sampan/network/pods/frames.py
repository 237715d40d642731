"""The nftables table that hands frames between pods to the routing of the node, as text for `nft -f -`. Pure.

Rules of the families ip, ip6 and inet see traffic between two pods of a bridge only if the kernel has br_netfilter.
Where it does not, this table gives such frames the hardware address of the bridge: the node then routes the packet back
to the bridge, through its forward hook and connection tracking.
"""

from __future__ import annotations

from typing import Final

_UNICAST: Final = "ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00"
_NEIGHBOUR_DISCOVERY: Final = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"


def frame_table_for(bridge: str) -> str:
    return f"sampan-frames-{bridge}"


def frame_table_text(bridge: str, hardware: str) -> str:
    """Return the text that replaces the table. `hardware` is the hardware address of the bridge.

    The node would tell pods of the shorter way with ICMP redirects, which are dropped.
    """
    return frame_table_removal(bridge) + "\n".join(
        [
            f"table bridge {frame_table_for(bridge)} {{",
            "  chain prerouting {",
            "    type filter hook prerouting priority dstnat; policy accept;",
            f'    iifname != "{bridge}-*" accept',
            f"    {_NEIGHBOUR_DISCOVERY} accept",
            f"    ether type {{ ip, ip6 }} {_UNICAST} ether daddr set {hardware} meta pkttype set host",
            "  }",
            "  chain output {",
            "    type filter hook output priority filter; policy accept;",
            f'    oifname "{bridge}-*" icmp type redirect drop',
            f'    oifname "{bridge}-*" icmpv6 type nd-redirect drop',
            "  }",
            "}",
            "",
        ]
    )


def frame_table_removal(bridge: str) -> str:
    name = frame_table_for(bridge)
    return f"add table bridge {name}\ndelete table bridge {name}\n"
