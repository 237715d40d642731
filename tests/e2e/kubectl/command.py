"""The real kubectl, run against a cluster of this process."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 120
WITHOUT_GARBAGE_COLLECTION = {"GOGC": "off"}
"""The environment of a program in Go that runs only for a moment. It saves a sixth of the CPU time of kubectl."""


def find_kubectl() -> str | None:
    """Return SAMPAN_KUBECTL, or the kubectl on the path."""
    return os.environ.get("SAMPAN_KUBECTL") or shutil.which("kubectl")


class Kubectl:
    """`kubectl("get", "pods")` returns the standard output and fails the test if the command fails;
    `kubectl.fails("get", "pods")` returns the standard error and fails the test if the command succeeds."""

    def __init__(self, *, program: str, kubeconfig: Path, home: Path) -> None:
        self._program = program
        self._environment = WITHOUT_GARBAGE_COLLECTION | {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "KUBECONFIG": str(kubeconfig),
        }

    def __call__(self, *words: str, stdin: str = "", editor: str = "") -> str:
        done = self.run(*words, stdin=stdin, editor=editor)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: code {done.returncode}\n{done.stdout}{done.stderr}"
        return _remove_namespace(done.stdout)

    def fails(self, *words: str, stdin: str = "", editor: str = "") -> str:
        done = self.run(*words, stdin=stdin, editor=editor)
        assert done.returncode != 0, f"kubectl {' '.join(words)} did not fail:\n{done.stdout}{done.stderr}"
        return done.stderr

    def run(self, *words: str, stdin: str = "", editor: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self._program, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=self._environment | ({"EDITOR": editor} if editor else {}),
        )

    @contextmanager
    def running(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """Run a command until the end of the block."""
        with subprocess.Popen(
            [self._program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))

    def jsonpath(self, *words: str) -> str:
        """Return the value at a JSONPath, which is the last word."""
        return self(*words[:-1], "-o", f"jsonpath={words[-1]}")

    def table(self, *words: str) -> list[list[str]]:
        """Return the cells of each line of the printed table; ages are left in."""
        return [re.split(r" {2,}", line.rstrip()) for line in self(*words).splitlines()]

    def wait_for_deletion(self, *words: str) -> None:
        """Wait with `kubectl wait`, which fails if the object is already gone, with a message that depends on the
        version."""
        done = self.run("wait", "--for=delete", *words, "--timeout=60s")
        assert done.returncode == 0 or "NotFound" in done.stderr or "no matching resources" in done.stderr, done.stderr

    @cached_property
    def version(self) -> tuple[int, int]:
        version = json.loads(self.run("version", "--client", "-o", "json").stdout)["clientVersion"]["gitVersion"]
        major, minor = version.removeprefix("v").split(".")[:2]
        return int(major), int(minor)

    def require_version(self, major: int, minor: int) -> None:
        """Skip the test if kubectl is older."""
        if self.version < (major, minor):
            pytest.skip(f"kubectl {self.version[0]}.{self.version[1]} cannot do this")


def _remove_namespace(text: str) -> str:
    """Remove the namespace that newer versions print after a deletion."""
    return re.sub(r"(deleted) from \S+ namespace", r"\1", text)
