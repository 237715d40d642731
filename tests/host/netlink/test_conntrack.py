"""The connection tracking table of a network namespace."""

from __future__ import annotations

import socket
from contextlib import closing
from functools import partial

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.conntrack import ConntrackTable
from sampan.network.nft import run_nft
from tests.network.pods.lab import OUTSIDE_IP, OUTSIDE_IP6, Lab, needs_network


def track() -> None:
    """Make the kernel track connections in a namespace."""
    run_nft(
        "-f", "-", text="table inet track { chain o { type filter hook output priority 0; ct state new accept; }; }"
    )


@needs_network
def test_udp_flows_are_listed_and_deleted_in_the_kernel(lab: Lab) -> None:
    def send() -> None:
        track()
        for family, address in ((socket.AF_INET, OUTSIDE_IP), (socket.AF_INET6, OUTSIDE_IP6)):
            for kind, number in ((socket.SOCK_DGRAM, 53), (socket.SOCK_DGRAM, 54), (socket.SOCK_STREAM, 53)):
                with closing(socket.socket(family, kind)) as client:
                    client.setblocking(False)
                    if kind is socket.SOCK_DGRAM:
                        client.sendto(b"?", (address, number))
                    else:
                        client.connect_ex((address, number))

    run_in_network(lab.node, send)
    for family, address in ((socket.AF_INET, OUTSIDE_IP), (socket.AF_INET6, OUTSIDE_IP6)):
        table = ConntrackTable(family)
        flows = {flow.destination_port: flow for flow in run_in_network(lab.node, table.udp_flows)}
        assert set(flows) == {53, 54}
        assert flows[53][:4] == (address, 53, address, 53)
        assert run_in_network(lab.node, partial(table.delete, [flows[53], flows[53]])) == 1
        left = run_in_network(lab.node, table.udp_flows)
        assert [flow.destination_port for flow in left] == [54]
