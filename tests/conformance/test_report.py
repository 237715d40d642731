"""Results of several runs are merged, and the page lists every failure."""

from pathlib import Path

from msgspec.structs import replace

from tests.conformance.programs import LATEST
from tests.conformance.record import merge_runs, read_record, write_record
from tests.conformance.report import page_text
from tests.conformance.results import Configuration, Result, Run, load, make_directory, read, summaries

POD = "[sig-node] Pods should start [Conformance]"
SERVICE = "[sig-network] Services should serve a basic endpoint from pods [Conformance]"
CRD = "[sig-api-machinery] CustomResourceDefinition resources works [Conformance]"
JUNIT = """<testsuites><testsuite>
<testcase name="[It] [sig-node] Pods should start [Conformance] [sig-node, Conformance]" time="2.5"></testcase>
<testcase name="[It] [sig-network] Services should serve a basic endpoint from pods [Conformance] [x, y]" time="9">
<failure message="[FAILED] service is not&#10;reachable&#10;In [It] at: service.go:7 @ 11/16">stack</failure></testcase>
<testcase name="[It] [sig-api-machinery] CustomResourceDefinition resources works [Conformance]"><skipped/></testcase>
<testcase name="[It] [sig-apps] Daemon set runs [Conformance] [Serial] [sig-apps, Serial]" time="1"></testcase>
<testcase name="[It] [sig-cli] Kubectl waits [Conformance]" status="interrupted"><error message="x"/></testcase>
<testcase name="[It] [sig-node] Pods [Feature:X] more"></testcase>
</testsuite></testsuites>"""


def run(
    *results: Result,
    left_out: tuple[str, ...] = (),
    runtime: str = "oci",
    commit: str = "abc",
    kubernetes: str = LATEST.minor,
) -> Run:
    return Run(
        configuration=Configuration(kubernetes=kubernetes, runtime=runtime),
        commit=commit,
        date="2026-01-02",
        minutes=3,
        results=list(results),
        left_out=list(left_out),
    )


def test_junit_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT)
    results, left_out = read([file, tmp_path / "absent.xml"])
    assert results == [
        Result(name="[sig-apps] Daemon set runs [Conformance] [Serial]", seconds=1),
        Result(name=SERVICE, seconds=9, failure="service is not reachable"),
        Result(name=POD, seconds=2.5),
    ]
    assert left_out == [CRD, "[sig-cli] Kubectl waits [Conformance]"]


def test_later_result_of_a_test_replaces_the_earlier_one(tmp_path: Path) -> None:
    first = run(Result(name=POD, failure="timeout"), left_out=(SERVICE, CRD))
    first.save(make_directory(tmp_path))
    assert [replace(loaded, started="") for loaded in load(tmp_path)] == [first]
    second = run(Result(name=POD), Result(name=SERVICE, failure="no"), left_out=(CRD,), commit="def")
    summary = summaries([first, second])[Configuration()]
    assert str(summary) == "1 Passed | 1 Failed | 1 Not Run"
    assert summary.left_out == [CRD]


def test_runs_are_added_to_the_record(tmp_path: Path) -> None:
    """A partial run with another runtime leaves the result of the whole suite as it is."""
    file = tmp_path / "record.json"
    assert read_record(file) == []
    whole = replace(run(Result(name=POD), Result(name=SERVICE, failure="no")), started="20260102T01")
    part = replace(run(Result(name=POD, failure="exit"), left_out=(SERVICE,), runtime="cri"), started="20260102T02")
    write_record(merge_runs([], [whole]), file)
    write_record(merge_runs(read_record(file), [part, whole]), file)
    runs = read_record(file)
    assert [sorted(loaded.results, key=lambda result: result.name) for loaded in runs] == [
        sorted(added.results, key=lambda result: result.name) for added in (whole, part)
    ]
    assert [str(summary) for summary in summaries(runs).values()] == [
        "1 Passed | 1 Failed",
        "0 Passed | 1 Failed | 1 Not Run",
    ]


def test_versions_have_tests_of_their_own_in_the_record(tmp_path: Path) -> None:
    older = replace(run(Result(name=POD), left_out=(CRD,), kubernetes="1.36"), minutes=3.0, started="20260102T01")
    newer = replace(run(Result(name=f"{POD} [Serial]"), left_out=(SERVICE,)), started="20260102T02")
    write_record([older, newer], tmp_path / "record.json")
    assert read_record(tmp_path / "record.json") == [older, newer]
    assert f"The official conformance suite of Kubernetes {LATEST.version} " in page_text([older, newer])


def test_configurations_are_kept_apart() -> None:
    runs = [run(Result(name=POD)), run(Result(name=POD, failure="exit code 1"), runtime="docker")]
    assert [str(summary) for summary in summaries(runs).values()] == ["1 Passed | 0 Failed", "0 Passed | 1 Failed"]
    page = page_text(runs)
    assert "| sig-node | 1 | 0 | 0 |" in page
    assert f"| v{LATEST.minor} | docker | sqlite | official | sig-node | 0 | 1 |" in page
    assert f"## Failures (v{LATEST.minor}, docker, sqlite, official kubectl)\n" in page


def test_the_page_lists_failures_and_tests_that_did_not_run() -> None:
    results = [Result(name=SERVICE, failure="no `route`"), Result(name=POD)]
    page = page_text([run(*results, left_out=(CRD,))])
    assert f"## Failures (v{LATEST.minor}, oci, sqlite, official kubectl)\n\n- `{SERVICE}`: `no 'route'`\n" in page
    assert f"## Not run\n\n- `{CRD}`\n" in page
