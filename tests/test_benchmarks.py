"""The table of results judges rightly, and finds every measurement."""

import ast
from pathlib import Path

import pytest

from benchmarks import Row
from benchmarks.machine import Machine, calibration, fsync_rate
from benchmarks.report import markdown, number
from benchmarks.run import Failed, Result, measure, topics
from benchmarks.scheduler_chart import chart

MACHINE = Machine(cores=2, processor="P", python="CPython 3", sqlite="3", fsyncs_per_s=1000.0, directory="/tmp")


@pytest.mark.parametrize(
    ("row", "goal", "met"),
    [
        pytest.param(Row("time", 50, "us", 40), 80, True, id="a time may take longer on a slow machine"),
        pytest.param(Row("time", 90, "us", 40), 80, False, id="but not for ever"),
        pytest.param(Row("rate", 2500, "writes/s", 4000), 2000, True, id="a rate may be lower"),
        pytest.param(Row("rate", 1500, "writes/s", 4000), 2000, False, id="within bounds"),
        pytest.param(Row("size", 70, "MB", 60), 60, False, id="a size may not grow"),
        pytest.param(Row("free", 1, "ms"), None, None, id="no goal"),
    ],
)
def test_goals_are_scaled(row: Row, goal: float | None, met: bool | None) -> None:
    result = Result(row, factor=2.0)
    assert (result.goal, result.is_met) == (goal, met)


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (0.01234, "0.0123"), (7.5, "7.5"), (99.96, "100"), (4321.9, "4,322")]
)
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_results_page_shows_what_was_missed() -> None:
    page = markdown(MACHINE, [Result(Row("decode", 50, "us", 40, "3.5 KB"), factor=1.0)])
    assert "| decode | 50 | 40 | us | NO | 40 | 3.5 KB |" in page
    assert "1,000 fsyncs a second" in page


def test_machine_is_measured(tmp_path: Path) -> None:
    assert 0.05 < calibration(tries=1) < 100
    assert fsync_rate(str(tmp_path), tries=1) > 0


@pytest.mark.parametrize("topic", topics())
def test_every_measurement_has_rows(repository: Path, topic: str) -> None:
    tree = ast.parse((repository / f"benchmarks/{topic}_bench.py").read_bytes())
    assert "rows" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_measurement_that_breaks_is_reported() -> None:
    with pytest.raises(Failed, match="nosuch_bench"):
        measure("nosuch")


def test_the_schedulers_chart_says_with_how_many_pods_it_was_drawn() -> None:
    drawn = chart({"basic": {100: 150.0, 20_000: 200.0}})
    assert "10,000 pods (2,000 on 100 nodes)<" in drawn
    assert "all of them evaluated; 10,000 pods<" in chart({"basic": {500: 150.0, 20_000: 200.0}})
