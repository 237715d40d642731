"""The results of a run, read from its junit files, and of all runs that share an output directory."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.conformance.programs import LATEST

_SIG = re.compile(r"\[(sig-[a-z-]+)\]")
_PLACE = re.compile(r" In \[\w+\] at: .*")
"""The place in the source of the suite that ginkgo adds to the text of a failure."""
_LABELS = re.compile(r" \[[^\[\]]*, [^\[\]]*\]$")
"""The labels of a test, which are at the end of its name in junit files: a conformance test has two or more."""
_LONGEST_REASON = 300
_FILE = "results.json"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    seconds: float = 0
    failure: str = ""
    """The first line of the failure; empty if the test passed."""

    @property
    def sig(self) -> str:
        return sig_of(self.name)


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    kubernetes: str = LATEST.minor
    """The version of the suite, and the level of the cluster."""
    runtime: str = "oci"
    store: str = "sqlite"
    kubectl: str = "official"

    def __str__(self) -> str:
        return f"v{self.kubernetes}, {self.runtime}, {self.store}, {self.kubectl} kubectl"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One invocation of the suite, of all of it or of a part."""

    started: str = ""
    """The name of the directory with the output of the run, which is the time of its start."""
    configuration: Configuration
    commit: str
    """The commit of the tested tree, with a plus sign if the tree was modified."""
    date: str
    minutes: float
    results: Sequence[Result]
    left_out: Sequence[str]
    """The names of the conformance tests that did not run."""

    def save(self, directory: Path) -> None:
        (directory / _FILE).write_bytes(msgspec.json.format(msgspec.json.encode(self)))


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The last result of each test in one configuration."""

    configuration: Configuration
    results: Sequence[Result]
    left_out: Sequence[str]

    def __str__(self) -> str:
        failed = sum(1 for result in self.results if result.failure)
        text = f"{len(self.results) - failed} Passed | {failed} Failed"
        return f"{text} | {len(self.left_out)} Not Run" if self.left_out else text


def load(output: Path) -> list[Run]:
    """Returns the runs whose directories are in an output directory, oldest first."""
    runs = {path: msgspec.json.decode(path.read_bytes(), type=Run) for path in sorted(output.glob(f"*/{_FILE}"))}
    return [msgspec.structs.replace(run, started=path.parent.name) for path, run in runs.items()]


def summaries(runs: Iterable[Run]) -> dict[Configuration, Summary]:
    """Merges the runs of each configuration; of two results of a test the later one counts."""
    by_configuration: dict[Configuration, tuple[dict[str, Result], set[str]]] = {}
    for run in runs:
        results, names = by_configuration.setdefault(run.configuration, ({}, set()))
        results.update((result.name, result) for result in run.results)
        names.update(run.left_out)
    return {
        configuration: Summary(
            configuration=configuration,
            results=sorted(results.values(), key=lambda result: result.name),
            left_out=sorted(names - set(results)),
        )
        for configuration, (results, names) in by_configuration.items()
    }


def make_directory(output: Path) -> Path:
    """Makes the directory of a run; directories are ordered by time."""
    directory = output / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    directory.mkdir(parents=True)
    return directory


def read(files: Iterable[Path]) -> tuple[list[Result], list[str]]:
    """Returns the results of the conformance tests that ran, and the names of the others."""
    results: dict[str, Result] = {}
    names: set[str] = set()
    for file in files:
        if file.exists():
            for case in ElementTree.parse(file).getroot().iter("testcase"):
                name = _strip_labels(case.get("name", ""))
                if "[Conformance]" not in name:
                    continue
                names.add(name)
                if case.find("skipped") is not None or case.get("status") == "interrupted":
                    continue
                results[name] = _result(name, case)
    return sorted(results.values(), key=lambda result: result.name), sorted(names - set(results))


def sig_of(name: str) -> str:
    match = _SIG.search(name)
    return match.group(1) if match else "other"


def commit(directory: Path) -> str:
    """Returns the commit of a work tree; empty if it is none."""
    command = ["git", "-C", str(directory), "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _strip_labels(name: str) -> str:
    """Returns the name of a test without the prefix and the list of labels that ginkgo adds."""
    return _LABELS.sub("", name.removeprefix("[It] "))


def _result(name: str, case: ElementTree.Element) -> Result:
    failure = case.find("failure")
    failure = case.find("error") if failure is None else failure
    text = "" if failure is None else failure.get("message") or failure.text or "failed"
    reason = _PLACE.sub("", " ".join(text.split()).removeprefix("[FAILED] "))[:_LONGEST_REASON]
    return Result(name=name, seconds=float(case.get("time", "0")), failure=reason)
