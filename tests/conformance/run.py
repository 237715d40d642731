"""Runs the suite's binary: the tests that may run side by side first, then the serial ones."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import programs

_WILL_RUN = re.compile(r"Will run (\d+) of \d+ specs")
_TIMEOUT = "3h"
_REPORT_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One invocation of the suite."""

    name: str
    labels: str
    """The ginkgo label filter that selects the tests."""
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    cache: Path
    kubeconfig: Path
    kubectl: Path
    registry: str
    output: Path
    """Logs and junit files are written to this directory, one subdirectory for each part."""
    focus: str = ""
    skip: str = ""

    def run(self, part: Part, report: Callable[[str], None]) -> Path:
        """Returns the junit file of the part; `report` gets a line of progress now and then."""
        directory = self.output / part.name
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / "e2e.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                self._command(part, directory), stdout=stream, stderr=subprocess.STDOUT, env=self._environment()
            )
            began = time.monotonic()
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_REPORT_S)
                report(f"{part.name}: {_progress(log)}, {(time.monotonic() - began) / 60:.0f} min")
        return directory / "junit_01.xml"

    def _command(self, part: Part, directory: Path) -> list[str]:
        command = [str(self.cache / programs.GINKGO.name), "--no-color", "--silence-skips", f"--timeout={_TIMEOUT}"]
        command += [f"--procs={part.processes}", f"--label-filter={part.labels}"]
        command += ["--output-interceptor-mode=none"]  # the log has the reason if a process ends before its tests
        if self.focus:
            command.append(f"--focus={self.focus}")
        if self.skip:
            command.append(f"--skip={self.skip}")
        return [
            *command,
            str(self.cache / programs.E2E.name),
            "--",
            f"--kubeconfig={self.kubeconfig}",
            f"--kubectl-path={self.kubectl}",
            f"--report-dir={directory}",
            "--provider=skeleton",
            "--disable-log-dump=true",
            "--allowed-not-ready-nodes=0",
        ]

    def _environment(self) -> dict[str, str]:
        repositories = self.output / "repositories.yaml"
        names = {
            "promoterE2eRegistry": f"{self.registry}/e2e-test-images",
            "gcRegistry": self.registry,
            "gcEtcdRegistry": self.registry,
            "privateRegistry": f"{self.registry}/k8s-authenticated-test",
            "invalidRegistry": "invalid.invalid/invalid",
        }
        repositories.write_text("".join(f"{key}: {value}\n" for key, value in names.items()))
        return {**os.environ, "KUBE_TEST_REPO_LIST": str(repositories), "KUBECONFIG": str(self.kubeconfig)}


def parts(processes: int) -> list[Part]:
    return [
        Part(name="parallel", labels="Conformance && !Serial", processes=processes),
        Part(name="serial", labels="Conformance && Serial", processes=1),
    ]


def sampan_kubectl(directory: Path) -> Path:
    """A program called kubectl that is `sampan kubectl`."""
    path = directory / "kubectl"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sampan kubectl "$@"\n')
    path.chmod(0o755)
    return path


def _progress(log: Path) -> str:
    text = log.read_text(errors="replace")
    match = _WILL_RUN.search(text)
    total = match.group(1) if match else "?"
    return f"{text.count('•')} of {total} done, {text.count('• [FAILED]')} failed"
