"""Wrap words as kubectl does (github.com/mitchellh/go-wordwrap): line breaks of the text stay, long words too."""

from __future__ import annotations


def wrap_words(text: str, limit: int) -> str:
    """Return the text with lines of at most `limit` characters, broken at spaces."""
    return "\n".join(_wrap_line(line, limit) for line in text.split("\n"))


def _wrap_line(line: str, limit: int) -> str:
    lines, current = [], ""
    for space, word in _spaces_and_words(line):
        if not word:
            if len(current) + len(space) <= limit:
                current += space
        elif len(current) + len(space) + len(word) > limit and len(word) < limit:
            lines.append(current)
            current = word
        elif len(current) + len(space) + len(word) > limit and limit > 1:
            current = _break_before_long_word(lines, current, space, word, limit)
        else:
            current += space + word
    return "\n".join([*lines, current])


def _break_before_long_word(lines: list[str], current: str, space: str, word: str, limit: int) -> str:
    """Place a word that fits on no line: it starts on a new line if its first `limit` characters do not fit."""
    if len(current) + len(space) + 1 > limit or len(current) + len(space) > 0:
        lines.append(current)
        return word
    return current + space + word


def _spaces_and_words(line: str) -> list[tuple[str, str]]:
    """Split a line into words, each with the spaces before it; the last word may be empty."""
    pairs, space, word = [], "", ""
    for char in line:
        if char.isspace() and char != "\xa0":
            if word:
                pairs.append((space, word))
                space, word = "", ""
            space += char
        else:
            word += char
    if space or word:
        pairs.append((space, word))
    return pairs
