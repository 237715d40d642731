"""Runs `nft`: each change is one transaction, and changes that wait together share one."""

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
    """What it prints; a failure says what nft said."""
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


def listed(*args: str) -> dict[str, Any]:
    return msgspec.json.decode(run_nft("-j", "-a", "list", *args), type=dict[str, Any])


class Change:
    """Text that waits for its transaction."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fault: RuntimeFailure | None = None


class Transactions:
    """For one thread, but `add` may be called from any. `whole` gives the table as it ought to be by now: it takes the
    place of a change that fails, for the table may have been flushed by others."""

    def __init__(self, whole: Callable[[], str]) -> None:
        self._whole = whole
        self._waiting: deque[Change] = deque()

    def add(self, text: str) -> Change:
        change = Change(text)
        self._waiting.append(change)
        return change

    def commit(self, change: Change) -> None:
        """Carry out everything that waits, unless an earlier commit did so for this change."""
        batch = []
        while self._waiting:
            batch.append(self._waiting.popleft())
        if batch:
            self._run(batch)
        if change.fault is not None:
            raise change.fault

    def _run(self, batch: list[Change]) -> None:
        try:
            run_nft("-f", "-", text="".join(change.text for change in batch))
        except RuntimeFailure as fault:
            log.warning("rewriting the nftables rules: %s", fault)
            self._write_whole(batch)

    def _write_whole(self, batch: list[Change]) -> None:
        try:
            run_nft("-f", "-", text=self._whole())
        except RuntimeFailure as fault:
            for change in batch:
                change.fault = fault


__all__ = ["Change", "Transactions", "listed", "nft_program", "run_nft"]
