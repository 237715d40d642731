"""Performs the steps of a page of the documentation in a directory with clusters of its own.

In the printed lines that a page shows, numbers, ages and generated suffixes of names may differ, and a line `...` or
`…` stands for any lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.docs.pages import Action, Step
from tests.eventually import wait_until

_SHOWS = re.compile(r"kubectl (get|describe|logs|top) |sampan (why|trace|status)")
"""Commands that change nothing."""
_ANY_LINES = ("...", "…")
_TIMEOUT_S = 120.0
_PAUSE_S = 0.2
_ENVIRONMENT = ".environment"
_INTERRUPTED = (0, 124, 130)


class _OtherOutput(AssertionError):
    """A command has not printed what the page shows."""


class Console:
    """A shell in a directory of its own, with a home of its own, in which `kubectl` is Sampan's."""

    def __init__(self, home: Path, directory: Path) -> None:
        self._home = home
        self._directory = directory
        programs = home / "programs"
        programs.mkdir()
        for name, command in {"sampan": "", "kubectl": "kubectl"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sampan {command} "$@"\n')
            (programs / name).chmod(0o755)
        self._environment = {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
        }
        self._actions: dict[Action, Callable[[Step], None]] = {
            Action.SAVE: self._save,
            Action.RUN: self._run,
            Action.COMPARE: self._compare,
            Action.APPLY: self._apply,
            Action.PYTHON: self._run_python,
            Action.PYTEST: self._run_pytest,
        }

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop and delete all clusters of the home."""
        clusters = json.loads(self._run_script("sampan status -o json"))
        for cluster in clusters:
            self._run_script(f"sampan down --name {cluster['name']} --delete")

    def perform(self, step: Step) -> None:
        """Perform a step. Raise AssertionError if a command fails, or prints something else than the page shows."""
        self._actions[step.action](step)

    def _save(self, step: Step) -> None:
        (self._directory / step.file).write_text(step.text)

    def _run(self, step: Step) -> None:
        if not step.timeout_s:
            self._run_script(step.text)
            return
        for line in step.text.splitlines():
            self._interrupt(line, step.timeout_s)

    def _compare(self, step: Step) -> None:
        """Run the command and compare its output. A command that only shows something is repeated until the timeout,
        because it may need a moment to become true."""
        ignore = (_OtherOutput,) if _SHOWS.match(step.text) else ()
        wait_until(lambda: self._prints(step), timeout_s=_TIMEOUT_S, poll_s=_PAUSE_S, ignore=ignore)

    def _prints(self, step: Step) -> bool:
        printed = self._run_script(step.text)
        if not matches(step.expected, printed.splitlines()):
            raise _OtherOutput(f"$ {step.text}\n{printed}\nthe page has:\n" + "\n".join(step.expected))
        return True

    def _apply(self, step: Step) -> None:
        self._run_script(f"kubectl apply -f - <<'YAML'\n{step.text}YAML")

    def _run_python(self, step: Step) -> None:
        (self._directory / "script.py").write_text(step.text)
        self._run_script("python script.py")

    def _run_pytest(self, step: Step) -> None:
        (self._directory / "test_page.py").write_text(step.text)
        self._run_script("pytest -q -p no:cacheprovider test_page.py")

    def _run_script(self, script: str) -> str:
        """Run a script, keep the variables that it sets, as in one session of a shell, and return what it printed."""
        file = self._home / _ENVIRONMENT
        done = self._shell(f"set -ea -o pipefail\n{script}\nenv -0 >'{file}'", _TIMEOUT_S)
        assert done.returncode == 0, f"$ {script}\n{done.stdout}{done.stderr}"
        variables = file.read_text().removesuffix("\0").split("\0")
        self._environment |= dict(variable.split("=", 1) for variable in variables)
        return done.stdout

    def _interrupt(self, line: str, timeout_s: float) -> None:
        """Run a command that needs no end of its own, and interrupt it as a user does."""
        self._environment["COMMAND"] = line
        done = self._shell(f'timeout -s INT {timeout_s:g} bash -c "$COMMAND"', _TIMEOUT_S)
        assert done.returncode in _INTERRUPTED, f"$ {line}\n{done.stdout}{done.stderr}"

    def _shell(self, script: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )


def matches(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Return whether the printed lines match those of the page. A page without lines matches any output."""
    if not expected:
        return True
    pattern = "".join(r"(?:[^\n]*\n)*" if line in _ANY_LINES else _line_pattern(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _line_pattern(line: str) -> str:
    """Return a pattern in which numbers may have other values, an ellipsis is any text, and columns any width."""
    text, is_cut = line.removesuffix("…"), line.endswith("…")
    words = [_word_pattern(word) for word in text.split()]
    return r" *" + r" +".join(words) + (r"[^\n]*" if is_cut else "") + r" *"


def _word_pattern(word: str) -> str:
    if generated := re.fullmatch(r"([a-z]+)((?:-(?=[a-z]*\d)[a-z0-9]{5,10})+|-[a-z]{5})", word):
        return re.escape(generated[1]) + f"(-[a-z0-9]{{5,10}}){{{generated[2].count('-')}}}"
    return re.sub(r"\d+", r"\\d+", re.escape(word))
