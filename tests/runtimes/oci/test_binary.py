"""Commands of the OCI runtime program: nothing of them outlives its caller."""

import asyncio
import os
from pathlib import Path

import pytest

from sampan.runtimes.oci.binary import OciBinary
from tests.eventually import eventually


async def test_a_command_whose_caller_is_cancelled_finishes_its_work(tmp_path: Path) -> None:
    started, finished, go_on = tmp_path / "started", tmp_path / "finished", tmp_path / "go-on"
    os.mkfifo(go_on)
    program = tmp_path / "runc"
    program.write_text(f"#!/bin/sh\necho > {started}\nread line < {go_on}\necho > {finished}\n")
    program.chmod(0o755)
    command = asyncio.create_task(OciBinary(str(program), tmp_path / "state").call("delete", "c"))
    await eventually(started.exists)
    command.cancel()
    await asyncio.sleep(0)
    await asyncio.to_thread(go_on.write_text, "go\n")
    with pytest.raises(asyncio.CancelledError):
        await command
    assert finished.exists()
