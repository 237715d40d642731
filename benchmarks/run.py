"""Run measurements and compare them with their goals. Each module runs in a process of its own, so that none warms up
or slows down the next; the machine is calibrated with each, since its speed changes."""

import importlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks import Row
from benchmarks.machine import calibration

TIMEOUT_S = 1800
"""Stops a measurement that hangs. The longest takes three minutes of CPU time, and the machine may be busy."""
ROOT = Path(__file__).resolve().parent.parent


class Result(NamedTuple):
    """A row, and its goal on this machine."""

    row: Row
    factor: float
    topic: str = ""

    @property
    def goal(self) -> float | None:
        """The row's goal for a machine this fast: times grow with the factor, rates shrink, sizes stay."""
        goal = self.row.goal
        if goal is None or self.row.unit in SIZES:
            return goal
        return goal / self.factor if self.row.is_rate else goal * self.factor

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None if there is none."""
        if self.goal is None:
            return None
        return self.row.value >= self.goal if self.row.is_rate else self.row.value <= self.goal


SIZES = frozenset({"bytes", "KB", "MB", "GB", "count", "%"})


class MeasurementFailed(Exception):
    """A measurement ended with an error. The message is its standard error."""


def topics() -> list[str]:
    return sorted(path.stem.removesuffix("_bench") for path in Path(__file__).parent.glob("*_bench.py"))


def measure(topic: str) -> list[Result]:
    """Run one module's `rows()` in a fresh interpreter."""
    command = [sys.executable, "-m", "benchmarks.run", topic]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, errors = _finished(process)
    if process.returncode:
        raise MeasurementFailed(errors.strip() or f"exit code {process.returncode}")
    result = json.loads(output.splitlines()[-1])
    return [Result(Row(*row), result["factor"], topic) for row in result["rows"]]


def _finished(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Return the output of the process. One that hangs is interrupted first, so that it can stop its own processes."""
    for patience_s, stop in ((TIMEOUT_S, signal.SIGINT), (20, signal.SIGKILL)):
        try:
            return process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            process.send_signal(stop)
    return process.communicate()


def _rows(topic: str) -> Iterable[Row]:
    rows: Iterable[Row] = importlib.import_module(f"benchmarks.{topic}_bench").rows()
    return rows


def _result_json(topic: str) -> str:
    before = calibration()
    rows = list(_rows(topic))
    return json.dumps({"factor": (before + calibration()) / 2, "rows": rows})


if __name__ == "__main__":
    print(_result_json(sys.argv[1]))
