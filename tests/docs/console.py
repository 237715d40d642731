"""Runs the commands of a page of the documentation, and compares their output with the page.

A block that begins with `$ ` contains commands and what they print. A YAML block after a line that ends with
"as `NAME`:" is saved as that file. In the printed lines, numbers, ages and generated suffixes of names may differ, and
a line `...` stands for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.eventually import wait_until

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED_AS = re.compile(r"as `([\w.-]+)`:\s*$")
_SHOWS = re.compile(r"kubectl (get|describe|logs|top) |sampan (why|trace|status) ")
"""Commands that change nothing."""
_ANY_LINES = "..."
_TIMEOUT_S = 120.0
_PAUSE_S = 0.2


class _OtherOutput(AssertionError):
    """A command has not printed what the page shows."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, or a file to save, with what the page shows of it."""

    text: str
    expected: tuple[str, ...] = ()
    file: str = ""


def steps(page: str) -> Iterator[Step]:
    """Yield the steps of a page in Markdown."""
    for block in _BLOCK.finditer(page):
        language, body = block.groups()
        if language == "yaml":
            if saved := _SAVED_AS.search(page[: block.start()].rstrip()):
                yield Step(body, file=saved[1])
        elif body.startswith("$ "):
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, *printed = command.splitlines()
                while line.endswith("\\"):
                    line = line[:-1] + printed.pop(0).removeprefix(">")
                yield Step(line, tuple(printed))


class Console:
    """A shell in a directory of its own, with a home of its own, in which `kubectl` is Sampan's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        programs = directory / "programs"
        programs.mkdir()
        (programs / "kubectl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sampan kubectl "$@"\n')
        (programs / "sampan").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sampan "$@"\n')
        for program in programs.iterdir():
            program.chmod(0o755)
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
            "LANG": "C.UTF-8",
        }

    def run(self, step: Step) -> None:
        """Perform a step. Raise AssertionError if the output differs from the page. A command that only shows
        something is repeated until the timeout, because it may need a moment to become true."""
        if step.file:
            (self._directory / step.file).write_text(step.text)
            return
        if step.text.startswith("export "):
            self._export(step.text)
            return
        ignore = (_OtherOutput,) if _SHOWS.match(step.text) else ()
        wait_until(lambda: self._check(step), timeout_s=_TIMEOUT_S, poll_s=_PAUSE_S, ignore=ignore)

    def _check(self, step: Step) -> bool:
        done = self._shell(step.text)
        printed = f"$ {step.text}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, printed
        if not matches(step.expected, done.stdout.splitlines()):
            raise _OtherOutput(f"{printed}\nthe page has:\n" + "\n".join(step.expected))
        return True

    def _export(self, command: str) -> None:
        name, _, _ = command.removeprefix("export ").partition("=")
        self._environment[name] = self._shell(f'{command} && printf %s "${name}"').stdout

    def _shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )

    @property
    def environment(self) -> Mapping[str, str]:
        return self._environment


def matches(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Return whether the printed lines match those of the page. A page without lines matches any output."""
    if not expected:
        return True
    pattern = "".join(r"(?:[^\n]*\n)*" if line == _ANY_LINES else _line_pattern(line) + r"\n" for line in expected)
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
