"""What the kernel remembers of UDP conversations. A client that goes on sending would for ever be led to where its
first packet went: to a pod that is gone, or to the node itself from before the pod had the port."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection
from typing import Any

log = logging.getLogger(__name__)

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def forget_udp(ports: Collection[int], local: Collection[str]) -> None:
    """Conversations with these ports of these addresses of the node."""
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTSocket

    for family in _FAMILIES:
        with NFCTSocket(nfgen_family=family) as netlink:
            for port in ports:
                try:
                    _forget(netlink, family, port, local)
                except NetlinkError as error:  # they end by themselves when nothing is sent for a while
                    log.warning("cannot delete conntrack entries of UDP port %d: %s", port, os.strerror(error.code))


def _forget(netlink: Any, family: int, port: int, local: Collection[str]) -> None:
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

    wanted = NFCTAttrTuple(family=family, proto=socket.IPPROTO_UDP, dport=port)
    for entry in list(netlink.dump(tuple_orig=wanted)):
        found = NFCTAttrTuple.from_netlink(family, entry.get_attr("CTA_TUPLE_ORIG"))
        if wanted == found and found.daddr in local:
            netlink.entry("del", tuple_orig=found)


__all__ = ["forget_udp"]
