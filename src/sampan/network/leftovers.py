"""Removal of the links and nftables tables of clusters whose data directory is gone.

A cluster that was killed is cleaned up by `sampan down` or by its next start, from the records in its data directory.
If somebody has deleted the directory instead, its bridges, links and tables are recognized by their names, and their
owner by the alias of the bridge. They are removed only if no running process has marked the bridge as its own
(`bridge_marks`) and the directory certainly does not exist.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from sampan.host.linux.user_namespace import is_in_user_namespace
from sampan.host.netlink.netlink_socket import NetlinkSocket
from sampan.host.netlink.routing import LinkInfo, encode_link_deletion, list_links, open_route_socket
from sampan.network.bridge_marks import announced_removal, is_owner_gone, marked_bridges
from sampan.network.nft import NftError, list_rules, nft_program, run_nft
from sampan.network.pods.firewall import ForwardRules
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

_OWNED = re.compile(r"(?P<bridge>s[pn][0-9a-f]{6})([-~][0-9a-f]{6})?")
"""The name of the bridge of the pods (sp) or nodes (sn) of a node or cluster, or of a link of such a bridge."""
_TABLE = re.compile(r"sampan-(pods|nodes)-(?P<bridge>s[pn][0-9a-f]{6})")
"""The tables of a bridge. Those of network policies may belong to a service proxy in a process of its own, so that one
without a bridge proves nothing."""
_NAMED_NAMESPACES = Path("/run/netns")
_NAMED_NAMESPACE = re.compile(r"sampan-(?P<mark>[0-9a-f]{6})[0-9a-f]{2}-.*")


def vanished_bridges(
    tables: Iterable[str], links: Iterable[LinkInfo], marked: Collection[str], is_gone: Callable[[str], bool]
) -> set[str]:
    """Return the names of bridges whose links and tables have no owner. Pure.

    `marked` are the bridges of running processes, and `is_gone` tells whether the directory in an alias does not exist
    any more. A bridge without an alias belongs to another program. Links and tables without a bridge are left from an
    interrupted removal. The tables must be listed before the links, because a bridge is created before its table.
    """
    by_name = {link.name: link for link in links}
    vanished = set()
    for bridge in {*_bridges_of(by_name, _OWNED), *_bridges_of(tables, _TABLE)} - set(marked):
        link = by_name.get(bridge)
        if link is None or is_gone(link.alias):
            vanished.add(bridge)
    return vanished


def _bridges_of(names: Iterable[str], pattern: re.Pattern[str]) -> Iterator[str]:
    for name in names:
        if (match := pattern.fullmatch(name)) is not None:
            yield match["bridge"]


def remove_leftovers() -> list[str]:
    """Remove the links and tables of clusters without a data directory, and return the names of their bridges.

    Failures are logged. The call blocks.
    """
    if not _is_root_of_the_machine() or nft_program() is None:
        return []
    try:
        removed = [bridge for bridge in _list_vanished() if _remove_if_vanished(bridge)]
        _remove_named_namespaces()
    except (NftError, RuntimeFailure, OSError) as error:
        log.warning("cannot remove the network links and nftables tables of earlier clusters: %s", error)
        return []
    return removed


def _is_root_of_the_machine() -> bool:
    """Whether this process may change the network of the machine. Root of a user namespace may not."""
    return os.geteuid() == 0 and not is_in_user_namespace()


def find_leftovers() -> list[str]:
    """Return the bridges that `remove_leftovers` would remove; empty if they cannot be listed. The call blocks."""
    if not _is_root_of_the_machine() or nft_program() is None:
        return []
    try:
        return _list_vanished()
    except (NftError, RuntimeFailure, OSError):
        return []


def _list_vanished() -> list[str]:
    tables = _list_tables()
    with open_route_socket() as netlink:
        links = list_links(netlink)
    return sorted(vanished_bridges(tables, links, marked_bridges(), is_owner_gone))


def _list_tables() -> list[str]:
    return [entry["table"]["name"] for entry in list_rules("tables")["nftables"] if "table" in entry]


def _remove_if_vanished(bridge: str) -> bool:
    """Remove the links and tables of a bridge if it still has no owner while a new owner would wait."""
    with announced_removal(bridge) as is_unused:
        if not is_unused or bridge not in _list_vanished():
            return False
        log.warning("removing the links and rules of %s, whose cluster is gone", bridge)
        with open_route_socket() as netlink:
            _delete_links(netlink, bridge)
        for table in (name for name in _list_tables() if name.startswith("sampan-") and name.endswith(f"-{bridge}")):
            run_nft("delete", "table", "inet", table)
        ForwardRules(bridge).remove()
    return True


def _delete_links(netlink: NetlinkSocket, bridge: str) -> None:
    for index, name in socket.if_nameindex():
        if name == bridge or name.startswith((f"{bridge}-", f"{bridge}~")):
            netlink.send(encode_link_deletion(index))


def _remove_named_namespaces() -> None:
    """Remove symbolic links to namespaces that are gone."""
    for path in _NAMED_NAMESPACES.glob("sampan-*") if _NAMED_NAMESPACES.is_dir() else ():
        if (match := _NAMED_NAMESPACE.fullmatch(path.name)) is None:
            continue
        with announced_removal(f"sn{match['mark']}") as is_unused:
            if is_unused and path.is_symlink() and not path.exists():
                path.unlink(missing_ok=True)
