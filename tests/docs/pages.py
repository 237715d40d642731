"""What a page of the documentation asks its readers to do: its fenced blocks, in their order.

Every block is run, unless a comment in the Markdown says why it cannot be. Comments at the start of a line, which
readers do not see, change what happens to the block that follows:

    <!-- not run: REASON -->               the block is an illustration
    <!-- saved as FILE -->                 the block is a file; so is a block after a line that ends with "as `FILE`:"
    <!-- each line for at most 3 s -->     the commands of the block run until a user interrupts them
    <!-- on real nodes -->                 the block needs root and containers: it is part of a sequence of its own
    <!-- run: COMMANDS -->                 commands beside the blocks, which prepare something or check it
    <!-- run on real nodes: COMMANDS -->   the same in the sequence that needs root
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

_PART = re.compile(
    r"^ *<!--(?P<comment>.*?)-->|^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(
    r"(?P<skip>not run:\s*(?P<reason>.*))|saved as (?P<file>\S+)|each line for at most (?P<seconds>\d+) s"
    r"|(?P<real>on real nodes)|run(?P<on_real> on real nodes)?:\s(?P<commands>.*)|/?conformance",
    re.DOTALL,
)
_FENCE = re.compile(r"^ *(?:```|~~~)", re.MULTILINE)
_SAVED_AS = re.compile(r"as `([\w.-]+)`:\s*$")
_SHELL = {"", "sh", "console"}


class Action(Enum):
    """What is done with the text of a step."""

    SAVE = auto()
    RUN = auto()
    COMPARE = auto()
    APPLY = auto()
    PYTHON = auto()
    PYTEST = auto()


class PageError(ValueError):
    """A page has a block or a comment whose meaning is not clear."""


@dataclass(frozen=True, slots=True)
class Step:
    """A block or a command of a page, and what is done with it."""

    action: Action
    text: str
    expected: tuple[str, ...] = ()
    """The lines that the page shows below a command."""
    file: str = ""
    timeout_s: float = 0
    """How long a command runs that does not end by itself; 0 if it does."""
    is_on_real_nodes: bool = False


@dataclass(frozen=True, slots=True)
class _Mark:
    """The comments before a block."""

    is_skipped: bool = False
    file: str = ""
    timeout_s: float = 0
    is_on_real_nodes: bool = False


def steps(page: str) -> Iterator[Step]:
    """Yield the steps of a page in Markdown. Raise PageError for a comment that has no meaning or no block, and for a
    fence that neither begins nor ends a block."""
    mark, end = _Mark(), 0
    parts = list(_PART.finditer(page))
    if len(_FENCE.findall(page)) != 2 * sum(part["comment"] is None for part in parts):
        raise PageError("a fence neither begins nor ends a block")
    for part in parts:
        if part["comment"] is None:
            text = page[end : part.start()].strip()
            if mark != _Mark() and text:
                raise PageError(f"a comment is not directly before its block, but before: {text[:60]}")
            yield from _block_steps(part, mark, page[: part.start()].rstrip())
            mark = _Mark()
        else:
            comment = _parse(part["comment"].strip())
            if comment["commands"]:
                yield Step(Action.RUN, comment["commands"], is_on_real_nodes=bool(comment["on_real"]))
            mark = _add(mark, comment)
        end = part.end()
    if mark != _Mark():
        raise PageError("there is no block after the last comment")


def _parse(comment: str) -> re.Match[str]:
    if not (match := _COMMENT.fullmatch(comment)):
        raise PageError(f"unknown comment: {comment}")
    if match["skip"] and len(match["reason"].split()) < 2:
        raise PageError("a block that is not run needs a reason")
    return match


def _add(mark: _Mark, comment: re.Match[str]) -> _Mark:
    return replace(
        mark,
        is_skipped=mark.is_skipped or bool(comment["skip"]),
        file=comment["file"] or mark.file,
        timeout_s=float(comment["seconds"] or mark.timeout_s),
        is_on_real_nodes=mark.is_on_real_nodes or bool(comment["real"]),
    )


def _block_steps(block: re.Match[str], mark: _Mark, before: str) -> Iterator[Step]:
    if mark.is_skipped:
        return
    text = textwrap.dedent(block["body"])
    saved = _SAVED_AS.search(before)
    for step in _read(block["language"], text, mark.file or (saved[1] if saved else "")):
        yield replace(step, timeout_s=mark.timeout_s, is_on_real_nodes=mark.is_on_real_nodes)


def _read(language: str, text: str, file: str) -> Iterator[Step]:
    if file:
        yield Step(Action.SAVE, text, file=file)
    elif language in _SHELL and text.startswith("$ "):
        yield from _commands_with_output(text)
    elif language in _SHELL:
        yield Step(Action.RUN, text)
    elif language == "yaml":
        yield Step(Action.APPLY, text)
    elif language == "python":
        yield Step(Action.PYTEST if "def test_" in text else Action.PYTHON, text)
    else:
        raise PageError(f"a block in the language {language} is neither run nor marked as an illustration")


def _commands_with_output(text: str) -> Iterator[Step]:
    for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *printed = command.splitlines()
        while line.endswith("\\"):
            line = line[:-1] + printed.pop(0).removeprefix(">")
        yield Step(Action.COMPARE, line, tuple(printed))
