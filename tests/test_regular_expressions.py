"""No regular expression in the source takes more than linear time on any text.

Python's `re` backtracks. Every pattern is extracted from the source, and matched with the same method as in the source
against texts that are built for it: each repetition of the pattern many times, after a prefix that matches the part
before it, and with an end that does not match. Patterns that are known only at run time are listed with the reason.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parse  # type: ignore[import-not-found]
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
FUNCTIONS = ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
SEARCHING = ("search", "sub", "subn", "split", "findall", "finditer")


RUN_TIME_PATTERNS = {
    ("sampan/api/names.py", "compile"): "patterns of the same file, which the test takes from there",
    (
        "sampan/apiserver/proxy/response_rewriter.py",
        "search",
    ): "one of nine tag names of the same file between literals",
    ("sampan/api/resources/runtime_config.py", "fullmatch"): "one of three literals of the same file",
}
"""Calls whose pattern is known only at run time, with the reason why it takes linear time."""

CANDIDATES = "a0-./ \nA_x\"'<>,=:$()\\%+e\t\r*Z@é["
ENDS = ("", "!", "\n")
SIZES = (8, 11, 14, 17, 20, 23, 26, 30, 36, 46, 64, 256, 1024, 4096, 16384)
"""The steps are small at first: a large step takes minutes if the time doubles with each repetition."""
SLOW_S = 0.02


@dataclass(frozen=True)
class Expression:
    """A pattern in the source."""

    place: str
    line: int
    pattern: str | bytes
    flags: int
    method: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line} {self.pattern!r} ({self.method})"


# -- patterns of the source ------------------------------------------------------------------------------------------


def calls() -> Iterator[tuple[Path, ast.Module, ast.Call, str]]:
    """Yield all calls of functions of `re`, with the method that is called on the result."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if not re.search(r"\bre\.[a-z]+\(", text):
            continue
        tree = ast.parse(text)
        used = {id(node.value): node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        methods = _methods_of_names(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in FUNCTIONS
            ):
                method = node.func.attr
                if method == "compile":
                    method = used.get(id(node)) or methods.get(id(node), "search")
                yield path, tree, node, method


def _methods_of_names(tree: ast.Module) -> dict[int, str]:
    """Return the method that is called on each `_NAME = re.compile(…)`; a searching method takes precedence."""
    names = {
        target.id: id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    patterns: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            place = names[node.value.id]
            if patterns.get(place) not in SEARCHING:
                patterns[place] = node.attr
    return patterns


def patterns() -> Iterator[Expression]:
    for path, _, call, method in calls():
        place = str(path.relative_to(SOURCE))
        module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
        arguments = []
        for argument in [
            *call.args[:1],
            *(word.value for word in call.keywords if word.arg == "flags"),
            *call.args[1:2],
        ]:
            try:
                arguments.append(eval(compile(ast.Expression(argument), place, "eval"), dict(vars(module))))
            except NameError:
                break
        if not arguments or not isinstance(arguments[0], str | bytes):
            if (place, method) not in RUN_TIME_PATTERNS and (place, "compile") not in RUN_TIME_PATTERNS:
                raise AssertionError(f"{place}:{call.lineno}: a pattern that is known only at run time")
            continue
        flags = next((value for value in arguments[1:] if isinstance(value, re.RegexFlag)), 0)
        yield Expression(place, call.lineno, arguments[0], int(flags), method)
    names = importlib.import_module("sampan.api.names")
    for rule in vars(names).values():
        matcher = getattr(getattr(rule, "_match", None), "__self__", None)
        if isinstance(matcher, re.Pattern):
            yield Expression("sampan/api/names.py", 0, matcher.pattern, 0, "fullmatch")


# -- texts that are made for a pattern -------------------------------------------------------------------------------


def attacks(pattern: str | bytes, flags: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of a prefix and a text to repeat."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = sre_parse.parse(text, flags & ~re.UNICODE if isinstance(pattern, bytes) else flags)
    pairs: set[tuple[str, str]] = set()
    for prefix, repeated in _attacks(list(tree), ""):
        if repeated and (prefix, repeated) not in pairs:
            pairs.add((prefix, repeated))
            yield prefix, repeated


def _attacks(nodes: list[Any], prefix: str) -> Iterator[tuple[str, str]]:
    before = prefix
    for operator, argument in nodes:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            body = list(argument[2])
            yield from _attacks(body, before)
            if argument[1] > 64:
                for sample in _samples(body):
                    yield before, sample
        elif operator is sre.SUBPATTERN:
            yield from _attacks(list(argument[3]), before)
        elif operator is sre.ATOMIC_GROUP:
            yield from _attacks(list(argument), before)
        elif operator is sre.BRANCH:
            for branch in argument[1]:
                yield from _attacks(list(branch), before)
        before += next(iter(_samples([(operator, argument)])), "")
        yield "", before
        yield "", before[len(prefix) :]


def _samples(nodes: list[Any]) -> list[str]:
    """Return some texts that these nodes match."""
    texts = [""]
    for node in nodes:
        parts = _node_samples(node)
        texts = [text + part for text in texts for part in parts][:24]
    return list(dict.fromkeys(texts))


def _node_samples(node: Any) -> list[str]:
    operator, argument = node
    if operator is sre.LITERAL:
        return [chr(argument)]
    if operator in (sre.IN, sre.NOT_LITERAL, sre.ANY, sre.CATEGORY):
        return [char for char in CANDIDATES if _matches(operator, argument, char)] or _sample_set(argument)
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [sample * max(argument[0], 1) for sample in _samples(list(argument[2]))]
    if operator is sre.SUBPATTERN:
        return _samples(list(argument[3]))
    if operator is sre.ATOMIC_GROUP:
        return _samples(list(argument))
    if operator is sre.BRANCH:
        return [sample for branch in argument[1] for sample in _samples(list(branch))[:4]]
    return [""]  # positions, assertions, references


def _sample_set(argument: Any) -> list[str]:
    for operator, value in argument if isinstance(argument, list) else ():
        if operator is sre.LITERAL:
            return [chr(value)]
        if operator is sre.RANGE:
            return [chr(value[0])]
    return ["a"]


def _matches(operator: Any, argument: Any, char: str) -> bool:
    if operator is sre.ANY:
        return True
    if operator is sre.NOT_LITERAL:
        return bool(ord(char) != argument)
    members = argument if operator is sre.IN else [(operator, argument)]
    is_negated = bool(members) and members[0][0] is sre.NEGATE
    return any(_is_member(member, char) for member in members if member[0] is not sre.NEGATE) != is_negated


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    sre.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    sre.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    sre.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}


def _is_member(member: Any, char: str) -> bool:
    operator, argument = member
    if operator is sre.LITERAL:
        return bool(ord(char) == argument)
    if operator is sre.RANGE:
        return bool(argument[0] <= ord(char) <= argument[1])
    return operator is sre.CATEGORY and _CATEGORIES[argument](char)


# -- time --------------------------------------------------------------------------------------------------------------


def find_slow_text(expression: Expression) -> str:
    """Return a text on which the pattern takes more than linear time, or an empty string."""
    compiled = re.compile(expression.pattern, expression.flags)
    for prefix, repeated in attacks(expression.pattern, expression.flags):
        for end in ENDS:
            if size := _find_slow_size(compiled, expression.method, prefix, repeated, end):
                return f"{prefix!r} + {repeated!r} * {size} + {end!r}"
    return ""


def _find_slow_size(compiled: re.Pattern[Any], method: str, prefix: str, repeated: str, end: str) -> int:
    """Return the number of repetitions at which the time grows more than linearly, or 0."""
    for size in SIZES:
        took = _measure_time(compiled, method, prefix + repeated * size + end)
        if took > SLOW_S:
            if size <= 64:
                return size
            texts = [prefix + repeated * count + end for count in (size // 4, size)]
            rounds = [[_measure_time(compiled, method, text) for text in texts] for _ in range(6)]
            quarter_s, whole_s = (min(times) for times in zip(*rounds, strict=True))
            return size if whole_s > SLOW_S and whole_s > quarter_s * 8 else 0
    return 0


def _measure_time(compiled: re.Pattern[Any], method: str, text: str) -> float:
    subject: Any = text.encode("latin-1", "replace") if isinstance(compiled.pattern, bytes) else text
    empty: Any = b"" if isinstance(compiled.pattern, bytes) else ""
    start = time.thread_time()
    if method in ("sub", "subn"):
        compiled.sub(lambda match: empty, subject)
    elif method == "finditer":
        for _ in compiled.finditer(subject):
            pass
    else:
        getattr(compiled, method if hasattr(compiled, method) else "search")(subject)
    return time.thread_time() - start


# -- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?:a+)+b", "match"),
        (r"a*a*b", "match"),
        (r"\s+$", "search"),
        (r"<!--.*?-->", "search"),
        (r"-----BEGIN ([^-\r\n]*)-----[\r\n]+.*?[\r\n]-----END \1-----", "match"),
        (r"(?:[a-z0-9]+[.-]?)+", "fullmatch"),
    ],
)
def test_superlinear_pattern_is_detected(pattern: str, method: str) -> None:
    assert find_slow_text(Expression("test", 0, pattern, re.DOTALL, method))


@pytest.mark.parametrize(
    ("pattern", "method"),
    [(r"[a-z]+(?:-[a-z]+)*", "fullmatch"), (r"(?>a+)b", "match"), (r"%(?![0-9A-F]{2})", "search")],
)
def test_linear_pattern_is_not_reported(pattern: str, method: str) -> None:
    assert not find_slow_text(Expression("test", 0, pattern, re.DOTALL, method))


def test_every_pattern_of_the_source_takes_linear_time() -> None:
    expressions = list(patterns())
    assert len(expressions) > 80
    slow = {str(expression): text for expression in expressions if (text := find_slow_text(expression))}
    assert not slow, "\n".join(f"{expression} on {text}" for expression, text in slow.items())
