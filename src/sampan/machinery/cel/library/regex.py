"""Regular expressions: `matches` of the language, and `find` and `findAll` of Kubernetes."""

from __future__ import annotations

from sampan.machinery.cel.checker.declarations import Library, method
from sampan.machinery.cel.checker.estimate import find_pattern
from sampan.machinery.cel.checker.types import INT, STRING, list_of
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.meter import Frame, charge, charge_work
from sampan.machinery.patterns import Pattern, PatternError, compile_pattern


def _search(frame: Frame, text: str, pattern: str, error_prefix: str = "") -> Pattern:
    """Compile the pattern and charge for a search: text length times pattern length as in cel-go, and as work one unit
    for each hundred steps that the program of the pattern may take (`(a?){1000}` is short, but its program is not)."""
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        charge(frame, _search_cost(len(text), len(pattern)))
        raise EvaluationError(f"{error_prefix}{error}") from None
    charge(frame, _search_cost(len(text), len(pattern)))
    charge_work(frame, len(text) * compiled.program_size // 100)
    return compiled


def _search_cost(text: int, pattern: int) -> int:
    return ((text + 1 + 9) // 10) * ((pattern + 3) // 4)


def matches(frame: Frame, text: str, pattern: str) -> bool:
    return _search(frame, text, pattern, "error parsing regexp: ").matches(text)


def _find(frame: Frame, text: str, pattern: str) -> str:
    return _search(frame, text, pattern, "Illegal regex: error parsing regexp: ").find(text) or ""


def _find_all(frame: Frame, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return all matches. Each further search may scan the rest of the text again, and is charged for."""
    compiled = _search(frame, text, pattern, "Illegal regex: error parsing regexp: ")
    texts: list[str] = []
    if limit == 0:
        return texts
    remaining, size = len(text), compiled.program_size
    for match in compiled.find_all(text):
        texts.append(match)
        if len(texts) == limit:
            break
        remaining -= len(match)
        charge_work(frame, 1 + remaining * size // 1000)
    return texts


LIBRARY = Library(
    {
        "find": [method(STRING, STRING, result=STRING, run=_find, is_metered=True, estimate=find_pattern)],
        "findAll": [
            method(STRING, STRING, result=list_of(STRING), run=_find_all, is_metered=True, estimate=find_pattern),
            method(STRING, STRING, INT, result=list_of(STRING), run=_find_all, is_metered=True, estimate=find_pattern),
        ],
    }
)
