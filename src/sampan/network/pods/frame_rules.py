"""Writes the table of `frame_table` to the kernel. A pod costs one transaction of a few elements over netlink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from sampan.host.netlink.constants import NFPROTO_BRIDGE
from sampan.host.netlink.messages import NetlinkMessage
from sampan.host.netlink.nftables import NftSocket, TransactionFailed
from sampan.network.pods.frame_table import (
    SourceAddress,
    encode_additions,
    encode_deletions,
    frame_table_for,
    frame_table_removal,
    frame_table_text,
    used_sets,
)
from sampan.network.pods.nft import run_nft
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)


class FrameRules:
    """The table of one bridge. For use by one thread. `sources` returns the addresses of all pods. `names_links` says
    that links of pods have names of their own, so that only those in the table are held to their addresses."""

    def __init__(
        self, bridge: str, sources: Callable[[], Iterable[SourceAddress]], *, names_links: bool = False
    ) -> None:
        self._bridge, self._sources, self._names_links = bridge, sources, names_links
        self._router = ""
        self._sets: Sequence[str] = ()
        self._socket: NftSocket | None = None

    @property
    def is_installed(self) -> bool:
        return bool(self._sets)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def install(self, router: str) -> bool:
        """Write the whole table, and return whether kernel and nft support it. `router` is the hardware address of the
        bridge if the node has to route frames between pods."""
        self._router = router
        try:
            self._write()
        except RuntimeFailure as error:
            self._sets = ()
            log.warning(
                "kernel module nf_tables_bridge is missing: pods of bridge %s are not held to their addresses, so that "
                "a pod with a raw socket passes network policies%s: %s",
                self._bridge,
                ", which do not apply between pods of this node" if router else "",
                error,
            )
        return self.is_installed

    def _write(self) -> None:
        sources, sets = list(self._sources()), used_sets(names_links=self._names_links)
        try:
            run_nft("-f", "-", text=frame_table_text(self._bridge, sources, sets, router=self._router))
        except RuntimeFailure as failure:
            sets = used_sets(names_links=self._names_links, checks_targets=False)
            run_nft("-f", "-", text=frame_table_text(self._bridge, sources, sets, router=self._router))
            log.warning("nft is older than 1.0.3: targets in neighbor advertisements are not checked: %s", failure)
        self._sets = sets

    def admit(self, sources: Iterable[SourceAddress]) -> None:
        """Allow these sources. The table is rewritten if that fails, since another program may have removed it."""
        if not self.is_installed:
            return
        try:
            self._commit(encode_additions(self._bridge, sources, self._sets))
        except (TransactionFailed, OSError) as error:
            log.warning("rewriting the nftables table %s: %s", frame_table_for(self._bridge), error)
            self._write()

    def withdraw(self, sources: Iterable[SourceAddress]) -> None:
        """Delete elements of a link that is about to be deleted. Missing ones are ignored."""
        if not self.is_installed:
            return
        try:
            self._commit(encode_deletions(self._bridge, sources, self._sets))
        except (TransactionFailed, OSError) as error:
            log.info("elements of nftables table %s are gone: %s", frame_table_for(self._bridge), error)

    def _commit(self, messages: Sequence[NetlinkMessage]) -> None:
        if self._socket is None:
            self._socket = NftSocket(NFPROTO_BRIDGE)
        self._socket.commit(messages)

    def remove(self) -> None:
        self._sets = ()
        if frame_table_for(self._bridge) in run_nft("list", "tables").decode():
            run_nft("-f", "-", text=frame_table_removal(self._bridge))
