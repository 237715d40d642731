"""A pattern of RE2 as steps of a machine. RE2 has accepted it before: what is none does not come here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

IsMatched = Callable[[str, str], bool]
"""Whether a text matches a pattern, by RE2."""


@dataclass(slots=True)
class Char:
    """Reads one character that the atom, a pattern of its own, matches."""

    atom: str
    is_matched: IsMatched
    _known: dict[str, bool] = field(default_factory=dict)

    def takes(self, char: str) -> bool:
        known = self._known.get(char)
        if known is None:
            known = self._known[char] = self.is_matched(char, f"\\A(?:{self.atom})\\z")
        return known


class Holds(NamedTuple):
    """Goes on where this is so, without reading."""

    holds: Callable[[str, int], bool]


class Split(NamedTuple):
    first: int
    """Preferred."""
    other: int


class Jump(NamedTuple):
    to: int


class Accept(NamedTuple):
    pass


Step = Char | Holds | Split | Jump | Accept
Program = list[Step]

_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\(?:[pPx]\{[^}]*\}|.)|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPx]\{[^}]*\}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|[pP].|.)", re.DOTALL)
_QUANTITY = re.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)")
_GROUP = re.compile(r"\((?:\?P?<\w+>|\?([imsU]*)(?:-([imsU]+))?([:)]))?")
_MOST_STEPS = 20_000
_WORD = re.compile(r"[0-9A-Za-z_]")


def program(pattern: str, is_matched: IsMatched) -> Program:
    made = _Maker(pattern, is_matched)
    made.alternatives("")
    return [*made.steps, Accept()]


class _Maker:
    def __init__(self, pattern: str, is_matched: IsMatched) -> None:
        self._pattern, self._at, self._is_matched = pattern, 0, is_matched
        self.steps: Program = []

    def alternatives(self, flags: str) -> None:
        """Up to the end of the group. Flags that are set within count to its end."""
        begin, ends = len(self.steps), list[int]()
        while self._at < len(self._pattern) and self._peek() != ")":
            if self._peek() == "|":
                self._at += 1
                self.steps.insert(begin, Split(0, 0))
                self._shift(begin + 1, 1, begin)
                ends.append(len(self.steps))
                self.steps.append(Jump(0))
                self.steps[begin] = Split(begin + 1, len(self.steps))
                begin = len(self.steps)
            else:
                flags = self._repeated(flags)
        for end in ends:
            self.steps[end] = Jump(len(self.steps))

    def _repeated(self, flags: str) -> str:
        """An atom and how often it comes; the flags from here on."""
        begin = len(self.steps)
        flags = self._atom(flags)
        quantity = _QUANTITY.match(self._pattern, self._at)
        if quantity is not None:
            self._at = quantity.end()
            sign, low, comma, high, lazy = quantity.groups()
            least = int(low) if low else int(sign == "+")
            most = int(high) if high else (1 if sign == "?" else int(low) if low and not comma else None)
            self._repeat(begin, least, most, is_greedy=bool(lazy) == ("U" in flags))
        return flags

    def _repeat(self, begin: int, least: int, most: int | None, *, is_greedy: bool) -> None:
        body = self.steps[begin:]
        del self.steps[begin:]
        if (max(least, most or 0) + 1) * (len(body) + 2) > _MOST_STEPS:
            raise ValueError("Illegal regex: expression is too large")
        for _ in range(least if most is not None else least - 1):
            self._copy(body, begin)
        if most is None:
            self._repeat_for_ever(body, begin, is_optional=least == 0, is_greedy=is_greedy)
            return
        splits = []
        for _ in range(most - least):
            splits.append(len(self.steps))
            self.steps.append(Split(0, 0))
            self._copy(body, begin)
        for at in splits:
            self.steps[at] = _split(at + 1, len(self.steps), is_greedy)

    def _repeat_for_ever(self, body: Program, was_at: int, *, is_optional: bool, is_greedy: bool) -> None:
        """`x*` is `(x+)?`: a round that reads nothing is the last, as with RE2."""
        asked, again = len(self.steps), len(self.steps) + is_optional
        if is_optional:
            self.steps.append(Split(0, 0))
        self._copy(body, was_at)
        after = len(self.steps) + 1
        self.steps.append(_split(again, after, is_greedy))
        if is_optional:
            self.steps[asked] = _split(again, after, is_greedy)

    def _copy(self, body: Program, was_at: int) -> None:
        by = len(self.steps) - was_at
        self.steps += [_moved(step, by, was_at) for step in body]

    def _shift(self, begin: int, by: int, from_place: int) -> None:
        self.steps[begin:] = [_moved(step, by, from_place) for step in self.steps[begin:]]

    def _atom(self, flags: str) -> str:
        char = self._peek()
        if char == "(":
            return self._group(flags)
        if self._pattern.startswith("\\Q", self._at):
            self._quoted(flags)
        elif char == "[":
            self._read(_CLASS, flags)
        elif char == "\\":
            self._escaped(flags)
        else:
            self._at += 1
            self.steps.append(_edge(char, flags) or self._char("." if char == "." else re.escape(char), flags))
        return flags

    def _group(self, flags: str) -> str:
        head = _GROUP.match(self._pattern, self._at)
        assert head is not None
        self._at = head.end()
        on, off, kind = head.groups()
        inner = "".join(sorted((set(flags) | set(on or "")) - set(off or "")))
        if kind == ")":
            return inner
        self.alternatives(inner)
        self._at += 1
        return flags

    def _quoted(self, flags: str) -> None:
        text, mark, _ = self._pattern[self._at + 2 :].partition("\\E")
        self._at += 2 + len(text) + len(mark)
        self.steps += [self._char(re.escape(char), flags) for char in text]

    def _escaped(self, flags: str) -> None:
        edge = _EDGES.get(self._pattern[self._at + 1])
        if edge is None:
            self._read(_ESCAPE, flags)
            return
        self._at += 2
        self.steps.append(edge)

    def _read(self, form: re.Pattern[str], flags: str) -> None:
        found = form.match(self._pattern, self._at)
        assert found is not None
        self._at = found.end()
        self.steps.append(self._char(found[0], flags))

    def _char(self, atom: str, flags: str) -> Char:
        kept = "".join(flag for flag in flags if flag in "is")
        return Char(f"(?{kept}:{atom})" if kept else atom, self._is_matched)

    def _peek(self) -> str:
        return self._pattern[self._at]


def _split(body: int, after: int, is_greedy: bool) -> Split:
    return Split(body, after) if is_greedy else Split(after, body)


def _moved(step: Step, by: int, from_place: int) -> Step:
    """As it is after what it is part of has moved; places before that stay."""
    if isinstance(step, Split):
        first, other = (place + by if place >= from_place else place for place in step)
        return Split(first, other)
    if isinstance(step, Jump):
        return Jump(step.to + by if step.to >= from_place else step.to)
    return step


def _edge(char: str, flags: str) -> Holds | None:
    if char == "^":
        return Holds(_line_begins if "m" in flags else _begins)
    if char == "$":
        return Holds(_line_ends if "m" in flags else _ends)
    return None


def _begins(text: str, at: int) -> bool:
    return at == 0


def _ends(text: str, at: int) -> bool:
    return at == len(text)


def _line_begins(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _line_ends(text: str, at: int) -> bool:
    return at == len(text) or text[at] == "\n"


def _is_word_edge(text: str, at: int) -> bool:
    before, after = text[at - 1 : at] if at else "", text[at : at + 1]
    return bool(_WORD.match(before)) != bool(_WORD.match(after))


_EDGES = {
    "A": Holds(_begins),
    "z": Holds(_ends),
    "b": Holds(_is_word_edge),
    "B": Holds(lambda text, at: not _is_word_edge(text, at)),
}

__all__ = ["Accept", "Char", "Holds", "Jump", "Program", "Split", "Step", "program"]
