"""Running `nft`: each change is one transaction, and pending changes are committed together."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from sampan.network.pods.config import failed
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_TIMEOUT_S = 60


def nft_program() -> str | None:
    return shutil.which("nft", path=_PATH)


def run_nft(*args: str, text: str = "") -> bytes:
    """Run nft and return its output; raise a failure with its error message."""
    program = nft_program()
    if program is None:
        raise failed("the pod network needs nft, which is not here: install nftables")
    try:
        done = subprocess.run(
            [program, *args], input=text.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failed(f"nft: {error}") from None
    if done.returncode:
        raise failed(f"nft: {done.stderr.decode('utf-8', 'replace').strip() or f'exit code {done.returncode}'}")
    return done.stdout


def list_rules(*args: str) -> dict[str, Any]:
    return msgspec.json.decode(run_nft("-j", "-a", "list", *args), type=dict[str, Any])


class NftChange:
    """A change that is waiting to be committed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.error: RuntimeFailure | None = None


class Transactions:
    """Batches of changes, for use by one thread; only `add` may be called from any thread.

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
