"""`find` and `findAll`: what in a text a pattern of RE2 matches, in time that grows with the text and never explodes.

The library of expressions has RE2, but only to ask whether a text matches. It says here whether a pattern is one,
whether there is anything to be found, and which characters belong to a class; where a match begins and ends is followed
by a machine that keeps all ways through the pattern at once, the preferred first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sampan.machinery.cel.expression import CelError, Environment, Expression
from sampan.machinery.cel.pattern_program import Accept, Char, Holds, Jump, Program, Split, program

MOST_STEPS = 1_000_000
"""Of one call: about a second. Texts that administrators look into take hundreds."""


def find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found: list[str] = []
    if most == 0 or not is_matched(text, pattern):
        return found
    for begin, end in _matches(_compiled(pattern), text):
        found.append(text[begin:end])
        if len(found) == most:
            break
    return found


def find(text: str, pattern: str) -> str:
    return next(iter(find_all(text, pattern, 1)), "")


def is_matched(text: str, pattern: str) -> bool:
    """Raises ValueError for what is no pattern of RE2: there are no references back and no looking around."""
    try:
        return bool(_question().evaluate({"text": text, "pattern": pattern}))
    except CelError as fault:
        raise ValueError(f"Illegal regex: {fault}") from None


@lru_cache(maxsize=1)
def _question() -> Expression:
    return Environment(variables=("text", "pattern")).compile("text.matches(pattern)")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Program:
    return program(pattern, is_matched)


def _matches(made: Program, text: str) -> Iterator[tuple[int, int]]:
    """One after the other. A match of nothing does not follow another at once."""
    machine, at, last_end = _Machine(made, text), 0, -1
    while at <= len(text) and (found := machine.search(at)) is not None:
        begin, end = found
        if end > begin or begin != last_end:
            yield found
        at, last_end = (end if end > at else at + 1), end


class _Machine:
    def __init__(self, made: Program, text: str) -> None:
        self._program, self._text, self._steps = made, text, 0

    def search(self, start: int) -> tuple[int, int] | None:
        """The leftmost match from there on, of those the one that the pattern prefers."""
        ways: dict[int, int] = {}
        best: tuple[int, int] | None = None
        for at in range(start, len(self._text) + 1):
            if best is None:
                self._add(ways, 0, at, begin=at)
            elif not ways:
                break
            following: dict[int, int] = {}
            for place, begin in ways.items():
                step = self._program[place]
                if isinstance(step, Accept):
                    best = (begin, at)
                    break  # all others are less preferred
                if isinstance(step, Char) and at < len(self._text) and step.takes(self._text[at]):
                    self._add(following, place + 1, at + 1, begin=begin)
            ways = following
        return best

    def _add(self, ways: dict[int, int], place: int, at: int, *, begin: int) -> None:
        """Every step that reads and can be reached from `place` without reading, in the order of preference. The dict
        keeps it, and by the place where the first of the ways there began."""
        waiting, seen = [place], set[int]()
        while waiting:
            place = waiting.pop()
            if place in seen or place in ways:
                continue
            seen.add(place)
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise ValueError("operation cancelled: actual cost limit exceeded")
            step = self._program[place]
            if isinstance(step, Split):
                waiting += (step.other, step.first)
            elif isinstance(step, Jump):
                waiting.append(step.to)
            elif isinstance(step, Holds):
                if step.holds(self._text, at):
                    waiting.append(place + 1)
            else:
                ways[place] = begin


__all__ = ["MOST_STEPS", "find", "find_all", "is_matched"]
