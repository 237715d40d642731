"""Programs that coroutines run: their results, and that none outlives its caller."""

import asyncio
import os
from pathlib import Path

import pytest

from sampan.host.linux import programs
from tests.eventually import eventually


async def test_code_and_output_are_returned() -> None:
    result = await programs.run("sh", "-c", "echo out; echo first >&2; echo last >&2; exit 3")
    assert (result.code, result.output, result.errors) == (3, "out\n", "first\nlast\n")
    assert result.last_error_line == "last"


async def test_a_program_has_no_input() -> None:
    assert (await programs.run("cat")).output == ""


async def test_a_missing_program_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        await programs.run("/nowhere/program")


async def test_a_program_that_does_not_exit_in_time_is_killed() -> None:
    """A program that is left running fails the test (tests/conftest.py)."""
    with pytest.raises(TimeoutError):
        await programs.run("sleep", "600", timeout_s=0.1)


@pytest.mark.parametrize("is_at_work", [True, False], ids=["at work", "starting"])
async def test_program_whose_caller_is_cancelled_finishes_its_work(tmp_path: Path, is_at_work: bool) -> None:
    started, finished, go_on = tmp_path / "started", tmp_path / "finished", tmp_path / "go-on"
    os.mkfifo(go_on)
    signal = os.open(go_on, os.O_RDWR)  # Opened for both, so that neither side waits for the other.
    script = f"echo > {started}; read line < {go_on}; echo > {finished}"
    caller = asyncio.create_task(programs.run("sh", "-c", script))
    await asyncio.sleep(0)  # The process exists, and its pipes are not connected yet.
    if is_at_work:
        await eventually(started.exists)
    caller.cancel()
    await asyncio.sleep(0)
    os.write(signal, b"go\n")
    with pytest.raises(asyncio.CancelledError):
        await caller
    os.close(signal)
    assert finished.exists()
