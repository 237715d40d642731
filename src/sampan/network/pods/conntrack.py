"""Conntrack entries of UDP flows.

A client that keeps sending would forever be directed to where its first packet went: to a deleted pod, or to the node
itself if the pod did not have the host port yet.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection
from typing import Any

log = logging.getLogger(__name__)

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def forget_udp(ports: Collection[int], local: Collection[str]) -> None:
    """Delete the conntrack entries of flows to these ports on these addresses of the node."""
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTSocket

    for family in _FAMILIES:
        with NFCTSocket(nfgen_family=family) as netlink:
            for port in ports:
                try:
                    _forget(netlink, family, port, local)
                except NetlinkError as error:  # Entries expire once nothing is sent for a while.
                    log.warning("cannot delete conntrack entries of UDP port %d: %s", port, os.strerror(error.code))


def _forget(netlink: Any, family: int, port: int, local: Collection[str]) -> None:
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

    pattern = NFCTAttrTuple(family=family, proto=socket.IPPROTO_UDP, dport=port)
    for entry in list(netlink.dump(tuple_orig=pattern)):
        flow = NFCTAttrTuple.from_netlink(family, entry.get_attr("CTA_TUPLE_ORIG"))
        if pattern == flow and flow.daddr in local:
            netlink.entry("del", tuple_orig=flow)
