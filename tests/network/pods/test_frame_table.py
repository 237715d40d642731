"""The table of frames as text and as netlink messages."""

from __future__ import annotations

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.constants import NFPROTO_BRIDGE
from sampan.host.netlink.nftables import NftSocket
from sampan.network.pods.frame_table import (
    encode_additions,
    encode_deletions,
    frame_table_for,
    frame_table_text,
    link_local_address,
    source_addresses,
    used_sets,
)
from sampan.network.pods.nft import run_nft
from sampan.network.pods.records import PodNetworkRecord
from tests.network.pods.lab import Lab, needs_network

TABLE = ("list", "table", "bridge", frame_table_for("tst0"))


def record(number: int) -> PodNetworkRecord:
    addresses = (f"10.1.0.{number}/24", f"fd01::{number:x}/64")
    return PodNetworkRecord(uid=str(number), link=f"tst0-{number}", namespace="/n", addresses=addresses)


SOURCES = [source for number in (2, 3, 254) for source in source_addresses(record(number))]


@pytest.mark.parametrize(
    ("hardware", "address"),
    [("0a:58:0a:f4:00:02", "fe80::858:aff:fef4:2"), ("00:00:5e:00:53:01", "fe80::200:5eff:fe00:5301")],
)
def test_link_local_address_is_derived_from_the_hardware_address(hardware: str, address: str) -> None:
    assert str(link_local_address(hardware)) == address


def test_a_pod_without_ipv6_has_a_link_local_address() -> None:
    single = PodNetworkRecord(uid="a", link="tst0-a", namespace="/n", addresses=("10.1.0.2/24",))
    assert [source.text(name) for source in source_addresses(single) for name in source.sets if name != "links"] == [
        '"tst0-a" . 0a:58:0a:01:00:02 . 10.1.0.2',
        '"tst0-a" . 0a:58:0a:01:00:02 . fe80::858:aff:fe01:2',
        '"tst0-a" . 0a:58:0a:01:00:02 . 0xfe8000000000000008580afffe010002',
    ]


def test_a_node_without_bridge_filter_routes_frames() -> None:
    assert "ether daddr set" not in frame_table_text("tst0", ())
    assert "ether daddr set 0a:58:0a:01:00:01" in frame_table_text("tst0", (), router="0a:58:0a:01:00:01")


@needs_network
@pytest.mark.parametrize("names_links", [False, True])
def test_messages_make_the_same_table_as_text(lab: Lab, names_links: bool) -> None:
    sets = used_sets(names_links=names_links)

    def list_table() -> list[str]:
        return sorted(run_nft(*TABLE).decode().replace(",", "\n").split())

    def compare() -> None:
        run_nft("-f", "-", text=frame_table_text("tst0", SOURCES, sets))
        expected = list_table()
        run_nft("-f", "-", text=frame_table_text("tst0", (), sets))
        empty = list_table()
        netlink = NftSocket(NFPROTO_BRIDGE)
        try:
            netlink.commit(encode_additions("tst0", SOURCES, sets))
            assert list_table() == expected
            netlink.commit(encode_deletions("tst0", SOURCES, sets))
            assert list_table() == empty
        finally:
            netlink.close()

    run_in_network(lab.node, compare)


@needs_network
def test_the_kernel_accepts_the_table_without_targets(lab: Lab) -> None:
    text = frame_table_text("tst0", SOURCES, used_sets(names_links=False, checks_targets=False))
    assert "targets6" not in text
    run_in_network(lab.node, lambda: run_nft("-f", "-", text=text))
