"""Runs the program `nft` in the network namespace of the calling thread."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import msgspec

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_TIMEOUT_S = 60


class NftError(Exception):
    """A failed run of nft. A failed transaction changed nothing."""


def nft_program() -> str | None:
    return shutil.which("nft", path=_PATH)


def run_nft(*args: str, text: str = "") -> bytes:
    """Run nft and return its output. Raise NftError with its error message if it fails."""
    program = nft_program()
    if program is None:
        raise NftError("nft is not installed: install the package nftables")
    try:
        done = subprocess.run(
            [program, *args], input=text.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NftError(f"nft: {error}") from None
    if done.returncode:
        raise NftError(f"nft: {done.stderr.decode('utf-8', 'replace').strip() or f'exit code {done.returncode}'}")
    return done.stdout


def list_rules(*args: str) -> dict[str, Any]:
    return msgspec.json.decode(run_nft("-j", "-a", "list", *args), type=dict[str, Any])
