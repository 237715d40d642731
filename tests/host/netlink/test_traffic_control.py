"""Bandwidth limits as the program `tc` shows them."""

from __future__ import annotations

import socket
import subprocess

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.routing import open_route_socket
from sampan.host.netlink.traffic_control import encode_redirection, encode_shaper_creation, encode_token_bucket
from tests.network.pods.lab import Lab, needs_network


@needs_network
def test_traffic_is_limited_in_both_directions(lab: Lab) -> None:
    def work() -> None:
        with open_route_socket() as netlink:
            index = socket.if_nametoindex("up0")
            netlink.send(encode_shaper_creation("ifb9", mtu=1400))
            shaper = socket.if_nametoindex("ifb9")
            netlink.send(encode_token_bucket(index, 8_000_000), encode_token_bucket(shaper, 64_000_000_000))
            netlink.send(*encode_redirection(index, shaper))
        queues = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True).stdout
        assert "qdisc tbf 1: dev up0 root refcnt" in queues
        assert "rate 8Mbit" in queues
        assert "rate 64Gbit" in queues
        assert "qdisc ingress ffff: dev up0" in queues
        show = ["tc", "filter", "show", "dev", "up0", "ingress"]
        filters = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert "match 00000000/00000000 at 0" in filters
        assert "mirred (Egress Redirect to device ifb9) stolen" in filters

    run_in_network(lab.node, work)
