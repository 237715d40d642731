"""Bridges, links and nftables tables of clusters whose data directory no longer exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.routing import LinkInfo, encode_alias, encode_link_creation, list_links, open_route_socket
from sampan.network import leftovers
from sampan.network.bridge_marks import BridgeMark, alias_for
from sampan.network.leftovers import remove_leftovers, vanished_bridges
from sampan.network.nft import list_rules, run_nft
from tests.network.pods.conftest import lab
from tests.network.pods.lab import Lab, needs_network

__all__ = ["lab"]


def link(name: str, alias: str = "") -> LinkInfo:
    return LinkInfo(index=2, name=name, kind="bridge", alias=alias, mtu=1500, master=0)


@pytest.mark.parametrize(
    ("tables", "links", "held", "expected"),
    [
        ([], [], [], set()),
        ([], [link("sn00000a", "sampan /gone")], [], {"sn00000a"}),
        ([], [link("sn00000a", "sampan /kept")], [], set()),
        ([], [link("sn00000a", "sampan /gone")], ["sn00000a"], set()),
        ([], [link("sp00000a")], [], set()),
        ([], [link("sp00000a-123456")], [], {"sp00000a"}),
        (["sampan-pods-sp00000a"], [], [], {"sp00000a"}),
        (["sampan-pods-sp00000a"], [], ["sp00000a"], set()),
        (["sampan-pods-sp00000a"], [link("sp00000a")], [], set()),
        (["sampan-netpol-sp00000a"], [], [], set()),
        (["kube-proxy", "sampan-netpol", "sampan-pods-other"], [link("sampan0", "sampan /gone")], [], set()),
    ],
    ids=[
        *("nothing", "directory gone", "directory kept", "process runs", "bridge of a CNI plugin", "pod link"),
        *("table alone", "table of a running process", "table with bridge", "policies of a proxy", "other names"),
    ],
)
def test_bridges_of_vanished_clusters_are_found(
    tables: list[str], links: list[LinkInfo], held: list[str], expected: set[str]
) -> None:
    assert vanished_bridges(tables, links, held, lambda alias: alias == "sampan /gone") == expected


def test_root_of_a_user_namespace_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[str]:
        raise AssertionError("the network of the machine belongs to another user")

    monkeypatch.setattr(leftovers, "is_in_user_namespace", lambda: True)
    monkeypatch.setattr(leftovers, "_list_vanished", fail)
    assert remove_leftovers() == []


@needs_network
def test_only_leftovers_of_vanished_clusters_are_removed(lab: Lab, tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    kept.mkdir()

    def prepare() -> list[str]:
        with open_route_socket() as netlink:
            for name, path in (("sn00000a", gone), ("sn00000b", kept)):
                netlink.send(encode_link_creation(name, "bridge", mtu=1400, hardware="0a:58:00:00:00:01"))
                index = next(info.index for info in list_links(netlink) if info.name == name)
                netlink.send(encode_alias(index, alias_for(path)))
                run_nft("-f", "-", text=f"table inet sampan-nodes-{name} {{}}\n")
        run_nft("-f", "-", text="table inet sampan-pods-sp00000c {}\ntable inet other {}\n")
        return remove_leftovers()

    assert run_in_network(lab.node, prepare) == ["sn00000a", "sp00000c"]
    assert lab.links() == {"lo", "up0", "sn00000b"}
    tables = run_in_network(lab.node, lambda: list_rules("tables"))["nftables"]
    names = {entry["table"]["name"] for entry in tables if "table" in entry}
    assert names == {"sampan-nodes-sn00000b", "other"}


@needs_network
def test_a_bridge_that_a_process_begins_to_use_is_not_removed(lab: Lab, tmp_path: Path) -> None:
    """The process begins after the bridges were listed, before the removal."""
    mark = BridgeMark("sp00000c")

    def prepare() -> list[str]:
        run_nft("-f", "-", text="table inet sampan-pods-sp00000c {}\n")
        assert leftovers.find_leftovers() == ["sp00000c"]
        mark.set()
        try:
            assert not leftovers._remove_if_vanished("sp00000c")
            return remove_leftovers()
        finally:
            mark.clear()

    assert run_in_network(lab.node, prepare) == []
    tables = run_in_network(lab.node, lambda: list_rules("tables"))["nftables"]
    assert [entry["table"]["name"] for entry in tables if "table" in entry] == ["sampan-pods-sp00000c"]
