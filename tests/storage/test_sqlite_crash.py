"""A process that writes is killed repeatedly: no acknowledged write is lost, and the revision never goes back."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.storage.crash_check import Acknowledged, check_file
from tests.storage.crash_writer import pad

ROUNDS = 50


def test_acknowledged_writes_survive_repeated_kill_9(tmp_path: Path, repository: Path) -> None:
    path, chance = tmp_path / "state.db", random.Random(20)
    acknowledged: list[Acknowledged] = []
    revision = 1
    command = [sys.executable, "-m", "tests.storage.crash_writer"]
    with subprocess.Popen(command, cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for round_number in range(ROUNDS):
            write_count = chance.choice([0, 1, chance.randrange(2, 40), chance.randrange(40, 400)])
            print(path, round_number, file=writer.stdin, flush=True)
            acknowledged += _kill_after(writer.stdout, write_count)
            revision = check_file(path, acknowledged, at_least=revision)
        writer.stdin.close()
    assert writer.returncode == 0
    assert len(acknowledged) > 500


def _kill_after(output: IO[str], write_count: int) -> list[Acknowledged]:
    """Kill the writer after `write_count` acknowledged writes, and return all that it reported until its end."""
    pid = 0
    acknowledged: list[Acknowledged] = []
    while not pid or len(acknowledged) < write_count:
        first, *fields = output.readline().split()
        if first == "pid":
            pid = int(fields[0])
        else:
            acknowledged.append(_parse_acknowledged(first, *fields))
    os.kill(pid, signal.SIGKILL)
    while (line := output.readline()) != "dead\n":
        acknowledged.append(_parse_acknowledged(*line.split()))
    return acknowledged


def _parse_acknowledged(revision: str, key: str, value: str) -> Acknowledged:
    return Acknowledged(int(revision), key, None if value == "-" else pad(value))
