"""The program that answers questions about rules with the real implementation of Kubernetes (`oracle/`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.operators.go_program import GoProgram

PROGRAM = GoProgram(name="cel-oracle", source=Path(__file__).parent / "oracle", build=("build",))


class Oracle:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        response: dict[str, Any] = json.loads(self._process.stdout.readline())
        return response


@contextmanager
def running_oracle(path: Path) -> Iterator[Oracle]:
    process = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Oracle(process)
    finally:
        process.communicate()
