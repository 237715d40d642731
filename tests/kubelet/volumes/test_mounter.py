"""Mounts by the program mount."""

import asyncio
import os
from pathlib import Path

import pytest

from sampan.kubelet.volumes.mounter import Mounter


def test_nfs_server_is_not_parsed_as_a_mount_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, notes = tmp_path / "mount", tmp_path / "command_log"
    tool.write_text(f'#!/bin/sh\necho "$*" > {notes}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asyncio.run(Mounter().mount_with_program("--bind:/etc", tmp_path / "target", "nfs", ["ro"]))
    assert notes.read_text() == f"-t nfs -o ro -- --bind:/etc {tmp_path}/target\n"
