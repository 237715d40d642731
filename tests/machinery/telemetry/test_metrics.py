"""Counters, gauges, histograms and their text format."""

import asyncio
import re

import pytest

from sampan.machinery.telemetry.metrics import OTHER, LabelNames, LoopLag, Metrics, export_process


def test_counters_and_gauges() -> None:
    metrics = Metrics()
    requests = metrics.counter("requests_total", "Requests\nin all.", ("verb", "path"))
    requests.labels("GET", '/a"b\\c\n').inc()
    requests.labels("GET", '/a"b\\c\n').inc(2)
    gauge = metrics.gauge("depth", "How deep.").labels()
    gauge.set(1.5)
    gauge.dec()
    assert metrics.text() == (
        "# HELP depth How deep.\n# TYPE depth gauge\ndepth 0.5\n"
        "# HELP requests_total Requests\\nin all.\n# TYPE requests_total counter\n"
        'requests_total{verb="GET",path="/a\\"b\\\\c\\n"} 3\n'
    )


def test_histogram_buckets_are_cumulative() -> None:
    metrics = Metrics()
    seconds = metrics.histogram("seconds", "How long.", ("verb",), (0.1, 1)).labels("GET")
    for value in (0.05, 0.1, 0.5, 7):
        seconds.observe(value)
    assert [line for line in metrics.text().splitlines() if not line.startswith("#")] == [
        'seconds_bucket{verb="GET",le="0.1"} 2',
        'seconds_bucket{verb="GET",le="1"} 3',
        'seconds_bucket{verb="GET",le="+Inf"} 4',
        'seconds_sum{verb="GET"} 7.65',
        'seconds_count{verb="GET"} 4',
    ]


def test_functions_are_called_when_the_text_is_rendered() -> None:
    metrics = Metrics()
    values = {"b": 2.0, "a": 1.0}
    metrics.function("size", "How large.", lambda: [((name,), value) for name, value in values.items()], ("name",))
    metrics.function("now", "The time.", lambda: 5, kind="counter")
    values["b"] = 3
    assert metrics.text().splitlines()[2:] == [
        "now 5",
        "# HELP size How large.",
        "# TYPE size gauge",
        'size{name="a"} 1',
        'size{name="b"} 3',
    ]


def test_names_and_labels_are_checked() -> None:
    metrics = Metrics()
    family = metrics.counter("a", "A.", ("x",))
    with pytest.raises(ValueError, match="already"):
        metrics.gauge("a", "A.")
    with pytest.raises(ValueError, match="labels"):
        family.labels("1", "2")
    assert metrics.text() == ""
    family.labels("1").inc()
    family.remove("1")
    assert metrics.text() == ""


def test_process_metrics() -> None:
    metrics = Metrics()
    export_process(metrics)
    values = dict(line.rsplit(" ", 1) for line in metrics.text().splitlines() if not line.startswith("#"))
    assert float(values["process_resident_memory_bytes"]) > 1 << 20
    assert float(values["process_cpu_seconds_total"]) > 0
    assert float(values["process_open_fds"]) > 0


def test_event_loop_lag_is_measured() -> None:
    async def check() -> LoopLag:
        beat = asyncio.Event()
        lag = LoopLag(metrics=metrics, interval_s=0.001, on_beat=beat.set)
        task = asyncio.create_task(lag.run())
        await asyncio.sleep(0)
        deadline = asyncio.get_running_loop().time() + 0.06
        while asyncio.get_running_loop().time() < deadline:
            pass
        await beat.wait()
        task.cancel()
        return lag

    metrics = Metrics()
    assert asyncio.run(check()).worst_s >= 0.05
    worst = re.search(r"^sampan_loop_lag_max_seconds (\S+)$", metrics.text(), re.MULTILINE)
    assert worst is not None
    assert float(worst[1]) >= 0.05
    assert 'sampan_loop_lag_seconds_bucket{le="0.025"} 0' in metrics.text()


def test_number_of_label_values_is_limited() -> None:
    names = LabelNames(maximum=2)
    assert [names.label(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]
