"""The reports of the benchmarks: goals, tables and charts."""

import ast
from pathlib import Path

import pytest

from benchmarks import Row
from benchmarks.machine import Machine, calibration, fsync_rate
from benchmarks.page_frames import frame_report
from benchmarks.report import markdown, merged, number
from benchmarks.run import MeasurementFailed, Result, measure, topics
from benchmarks.scheduler_chart import chart

MACHINE = Machine(cores=2, processor="P", python="CPython 3", sqlite="3", fsyncs_per_s=1000.0, directory="/tmp")


@pytest.mark.parametrize(
    ("row", "goal", "met"),
    [
        pytest.param(Row("time", 50, "us", 40), 80, True, id="time-within-scaled-goal"),
        pytest.param(Row("time", 90, "us", 40), 80, False, id="time-above-scaled-goal"),
        pytest.param(Row("rate", 2500, "writes/s", 4000), 2000, True, id="rate-above-scaled-goal"),
        pytest.param(Row("rate", 1500, "writes/s", 4000), 2000, False, id="rate-below-scaled-goal"),
        pytest.param(Row("size", 70, "MB", 60), 60, False, id="size-goal-is-not-scaled"),
        pytest.param(Row("free", 1, "ms"), None, None, id="no-goal"),
    ],
)
def test_goals_are_scaled_to_the_speed_of_the_machine(row: Row, goal: float | None, met: bool | None) -> None:
    result = Result(row, factor=2.0)
    assert (result.goal, result.is_met) == (goal, met)


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.01234, "0.0123"), (7.5, "7.5"), (99.96, "100"), (4321.9, "4,322")]
)
def test_number_format(value: float | None, text: str) -> None:
    assert number(value) == text


def test_results_page_marks_missed_goals() -> None:
    page = markdown(MACHINE, [Result(Row("decode", 50, "us", 40, "3.5 KB"), factor=1.0)])
    assert "| decode | 50 | 40 | us | NO | 40 | 3.5 KB |" in page
    assert "1,000 fsyncs a second" in page


def test_calibration_and_fsync_rate_are_measured(tmp_path: Path) -> None:
    assert 0.05 < calibration(tries=1) < 100
    assert fsync_rate(str(tmp_path), tries=1) > 0


@pytest.mark.parametrize("topic", topics())
def test_every_benchmark_defines_rows(repository: Path, topic: str) -> None:
    tree = ast.parse((repository / f"benchmarks/{topic}_bench.py").read_bytes())
    assert "rows" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_failed_measurement_names_its_benchmark() -> None:
    with pytest.raises(MeasurementFailed, match="nosuch_bench"):
        measure("nosuch")


def test_scheduler_chart_names_the_number_of_pods() -> None:
    drawn = chart({"basic": {100: 150.0, 20_000: 200.0}})
    assert "10,000 pods (2,000 on 100 nodes)<" in drawn
    assert "all of them evaluated; 10,000 pods<" in chart({"basic": {500: 150.0, 20_000: 200.0}})


def test_new_rows_replace_rows_with_the_same_name() -> None:
    before = "# Results\n\n| measure | measured |\n|---|--:|\n| a | 1 |  | ms |  |  |  |\n| b | 2 |  | ms |  |  |  |\n"
    after = merged(before, [Result(Row("b", 3.0, "ms"), 1.0), Result(Row("c", 4.0, "ms", note="new"), 1.0)])
    assert after.splitlines()[4:] == [
        "| a | 1 |  | ms |  |  |  |",
        "| b | 3 |  | ms |  |  |  |",
        "| c | 4 |  | ms |  |  | new |",
    ]


def trace_of(*events: dict[str, object]) -> list[dict[str, object]]:
    thread = {"name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "CrRendererMain"}}
    return [thread, *({"pid": 1, "tid": 1, **event} for event in events)]


def test_dropped_frames_count_for_the_page_only_while_it_computes() -> None:
    def task(start_ms: float, dur_ms: float, cpu_ms: float) -> dict[str, object]:
        return {"name": "RunTask", "ts": start_ms * 1000, "dur": dur_ms * 1000, "tdur": cpu_ms * 1000}

    def frame(name: str, time_ms: float) -> dict[str, object]:
        return {"name": name, "ts": time_ms * 1000}

    report = frame_report(
        trace_of(
            frame("DrawFrame", 0),
            task(100, 60, 60),  # the page computes
            frame("DroppedFrame", 150),
            task(300, 60, 2),  # the page waits for a processor
            frame("DroppedFrame", 350),
            frame("DroppedFrame", 500),  # the page is idle
            frame("DrawFrame", 1000),
        )
    )
    assert (report.drawn, report.dropped_by_page, report.dropped_by_machine) == (2, 1, 2)
    assert (report.long_tasks, report.longest_task_ms) == (1, 60)
    assert 6 < report.busy_percent < 6.3
