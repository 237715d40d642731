"""Transactions of the nftables rules of a pod network. Changes that are pending at the same time share a
transaction."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from sampan.network import nft
from sampan.network.nft import NftError, nft_program
from sampan.network.pods.config import network_failure
from sampan.runtimes.contract import RuntimeFailure

__all__ = ["NftChange", "RuleTransactions", "list_rules", "nft_program", "run_nft"]

log = logging.getLogger(__name__)


def run_nft(*args: str, text: str = "") -> bytes:
    """Run nft and return its output; an error becomes a failure of the pod's sandbox."""
    try:
        return nft.run_nft(*args, text=text)
    except NftError as error:
        raise network_failure(str(error)) from error


def list_rules(*args: str) -> dict[str, Any]:
    try:
        return nft.list_rules(*args)
    except NftError as error:
        raise network_failure(str(error)) from error


class NftChange:
    """A change that is waiting to be committed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.error: RuntimeFailure | None = None


class RuleTransactions:
    """Batches of rule changes, for use by one thread; only `add` may be called from any thread.

    `whole` returns the complete desired table. It is written if a change fails, since another program may have flushed
    the table.
    """

    def __init__(self, whole: Callable[[], str]) -> None:
        self._whole = whole
        self._waiting: deque[NftChange] = deque()

    def add(self, text: str) -> NftChange:
        change = NftChange(text)
        self._waiting.append(change)
        return change

    def commit(self, change: NftChange) -> None:
        """Commit all pending changes, unless an earlier commit already included this one."""
        batch = []
        while self._waiting:
            batch.append(self._waiting.popleft())
        if batch:
            self._run(batch)
        if change.error is not None:
            raise change.error

    def _run(self, batch: list[NftChange]) -> None:
        try:
            run_nft("-f", "-", text="".join(change.text for change in batch))
        except RuntimeFailure as error:
            log.warning("rewriting the nftables rules: %s", error)
            self._write_whole(batch)

    def _write_whole(self, batch: list[NftChange]) -> None:
        try:
            run_nft("-f", "-", text=self._whole())
        except RuntimeFailure as error:
            for change in batch:
                change.error = error
