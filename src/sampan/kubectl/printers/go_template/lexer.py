"""The tokens of a Go template (text/template/parse)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sampan.api.go_compat.gotext import quote

_SPACES = " \t\r\n"
_KEYWORDS = frozenset({"block", "break", "continue", "define", "else", "end", "if", "range", "nil", "template", "with"})
_DIGITS = r"(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*(?:\.[0-7_]*)?"
_NUMBER = re.compile(rf"[+-]?{_DIGITS}|0[bB][01_]*(?:\.[01_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?")
_NUMBER_START = re.compile(r"[0-9+-]|\.[0-9]")
_WORD = re.compile(r"\w+")
_match_double_quoted = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"').match
_match_character = re.compile(r"'(?:[^'\\\n]|\\[^\n])*'").match
_match_raw_quoted = re.compile(r"`[^`]*`").match
_SINGLE = frozenset("=|()")


class TokenType(Enum):
    ERROR = "error"
    EOF = "EOF"
    TEXT = "text"
    LEFT_DELIMITER = "left delimiter"
    RIGHT_DELIMITER = "right delimiter"
    SPACE = "space"
    ASSIGN = "="
    DECLARE = ":="
    PIPE = "|"
    LEFT_PAREN = "("
    RIGHT_PAREN = ")"
    CHAR = "char"
    STRING = "string"
    RAW_STRING = "raw string"
    CHARACTER_CONSTANT = "character constant"
    NUMBER = "number"
    COMPLEX = "complex"
    VARIABLE = "variable"
    FIELD = "field"
    DOT = "dot"
    BOOL = "bool"
    IDENTIFIER = "identifier"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True)
class TemplateToken:
    type: TokenType
    position: int
    text: str
    line: int

    def __str__(self) -> str:
        if self.type is TokenType.EOF:
            return "EOF"
        if self.type is TokenType.ERROR:
            return self.text
        if self.type in (TokenType.KEYWORD, TokenType.DOT):
            return f"<{self.text}>"
        return f"{quote(self.text[:10])}..." if len(self.text.encode()) > 10 else quote(self.text)

    def is_keyword(self, word: str) -> bool:
        return self.type is TokenType.KEYWORD and self.text == word


class _LexicalError(Exception):
    pass


class Lexer:
    """Yields the tokens of a template. A lexical error is the last token, so that the parser reports an earlier syntax
    error first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._start = 0
        self._paren_depth = 0

    def tokens(self) -> Iterator[TemplateToken]:
        try:
            yield from self._template()
        except _LexicalError as error:
            yield TemplateToken(TokenType.ERROR, self._start, str(error), self._line(self._start))
        yield TemplateToken(TokenType.EOF, len(self._text), "EOF", self._line(len(self._text)))

    def _line(self, position: int) -> int:
        return 1 + self._text.count("\n", 0, position)

    def _token(self, type: TokenType, end: int) -> TemplateToken:
        token = TemplateToken(type, self._start, self._text[self._start : end], self._line(self._start))
        self._start = self._position = end
        return token

    def _template(self) -> Iterator[TemplateToken]:
        text = self._text
        while self._position < len(text):
            start = text.find("{{", self._position)
            if start < 0:
                yield self._token(TokenType.TEXT, len(text))
                return
            is_trimmed = _has_left_trim_marker(text, start + 2)
            end = start
            if is_trimmed:
                end = self._position + len(text[self._position : start].rstrip(_SPACES))
            if end > self._position:
                yield self._token(TokenType.TEXT, end)
            self._start = self._position = start
            inside = start + (4 if is_trimmed else 2)
            if text.startswith("/*", inside):
                self._start = inside
                self._skip_comment(inside)
                continue
            yield self._token(TokenType.LEFT_DELIMITER, start + 2)
            self._start = self._position = inside
            self._paren_depth = 0
            yield from self._action()

    def _skip_comment(self, position: int) -> None:
        end = self._text.find("*/", position + 2)
        if end < 0:
            raise _LexicalError("unclosed comment")
        self._position = end + 2
        length, is_trimmed = self._right_delimiter()
        if not length:
            raise _LexicalError("comment ends before closing delimiter")
        self._close(length, is_trimmed)

    def _right_delimiter(self) -> tuple[int, bool]:
        """Return the length of the right delimiter at the current position (0 if there is none), and whether it trims
        the text that follows."""
        text, position = self._text, self._position
        if text[position : position + 1] in tuple(_SPACES) and text.startswith("-}}", position + 1):
            return 4, True
        return (2, False) if text.startswith("}}", position) else (0, False)

    def _close(self, length: int, is_trimmed: bool) -> None:
        self._position += length
        while is_trimmed and self._text[self._position : self._position + 1] in tuple(_SPACES):
            self._position += 1
        self._start = self._position

    def _action(self) -> Iterator[TemplateToken]:
        while True:
            length, is_trimmed = self._right_delimiter()
            if length:
                if self._paren_depth:
                    raise _LexicalError("unclosed left paren")
                self._start = self._position + length - 2
                end = self._position + length
                yield self._token(TokenType.RIGHT_DELIMITER, end)
                self._close(0, is_trimmed)
                return
            yield self._element()

    def _element(self) -> TemplateToken:
        text, position = self._text, self._position
        if position >= len(text):
            raise _LexicalError("unclosed action")
        char = text[position]
        if char in _SPACES:
            end = position
            while text[end : end + 1] in tuple(_SPACES):
                end += 1
            if text.startswith("-}}", end) and end - 1 > position:
                end -= 1  # the last space is part of the right delimiter, which begins with a trim marker
            return self._token(TokenType.SPACE, end)
        if char in _SINGLE:
            self._paren_depth += (char == "(") - (char == ")")
            if self._paren_depth < 0:
                raise _LexicalError("unexpected right paren")
            return self._token(TokenType(char), position + 1)
        if char == ":":
            if not text.startswith(":=", position):
                raise _LexicalError("expected :=")
            return self._token(TokenType.DECLARE, position + 2)
        if char in "\"`'":
            return self._read_quoted(char)
        if char == "$":
            return self._name(position + 1, TokenType.VARIABLE, TokenType.VARIABLE)
        if _NUMBER_START.match(text, position):
            return self._number()
        if char == ".":
            return self._name(position + 1, TokenType.FIELD, TokenType.DOT)
        if _WORD.match(char):
            return self._word()
        if " " < char <= "~":
            return self._token(TokenType.CHAR, position + 1)
        raise _LexicalError(f"unrecognized character in action: {_code_point(char)}")

    def _read_quoted(self, char: str) -> TemplateToken:
        patterns = {
            '"': (_match_double_quoted, TokenType.STRING, "unterminated quoted string"),
            "`": (_match_raw_quoted, TokenType.RAW_STRING, "unterminated raw quoted string"),
            "'": (_match_character, TokenType.CHARACTER_CONSTANT, "unterminated character constant"),
        }
        match_quoted, type, error = patterns[char]
        match = match_quoted(self._text, self._position)
        if match is None:
            raise _LexicalError(error)
        return self._token(type, match.end())

    def _number(self) -> TemplateToken:
        end = self._number_end(self._position)
        type = TokenType.NUMBER
        if self._text[end : end + 1] in ("+", "-"):
            end = self._number_end(end)
            if self._text[end - 1] != "i":
                self._reject_number(end)
            type = TokenType.COMPLEX
        return self._token(type, end)

    def _number_end(self, position: int) -> int:
        match = _NUMBER.match(self._text, position)
        end = match.end() if match else position
        if _WORD.match(self._text[end : end + 1]):
            self._reject_number(end + 1)
        return end

    def _reject_number(self, end: int) -> None:
        raise _LexicalError(f"bad number syntax: {quote(self._text[self._start : end])}")

    def _name(self, position: int, type: TokenType, bare: TokenType) -> TemplateToken:
        match = _WORD.match(self._text, position)
        end = match.end() if match and not self._is_terminator(position) else position
        self._check_terminator(end)
        return self._token(type if end > position else bare, end)

    def _word(self) -> TemplateToken:
        match = _WORD.match(self._text, self._position)
        assert match is not None
        self._check_terminator(match.end())
        word = match.group()
        if word in _KEYWORDS:
            return self._token(TokenType.KEYWORD, match.end())
        return self._token(TokenType.BOOL if word in ("true", "false") else TokenType.IDENTIFIER, match.end())

    def _is_terminator(self, position: int) -> bool:
        char = self._text[position : position + 1]
        return not char or char in _SPACES or char in ".,|:()" or self._text.startswith("}}", position)

    def _check_terminator(self, position: int) -> None:
        if not self._is_terminator(position):
            raise _LexicalError(f"bad character {_code_point(self._text[position])}")


def _has_left_trim_marker(text: str, position: int) -> bool:
    return text[position : position + 1] == "-" and text[position + 1 : position + 2] in tuple(_SPACES)


def _code_point(char: str) -> str:
    """Return a character as Go's %#U prints it."""
    return f"U+{ord(char):04X}" + (f" '{char}'" if char.isprintable() else "")
