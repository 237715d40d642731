"""The text form of label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`."""

import re
from typing import NamedTuple, NoReturn

_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n\0]+))\0?")
_END = ""
_COMMA_OR_END = (",", _END)


class SelectorError(ValueError):
    """The selector is malformed or invalid; the message is that of kube-apiserver."""


class _Token(NamedTuple):
    kind: str
    """The symbol or keyword itself, `word`, or empty at the end."""
    text: str


class LabelTerm(NamedTuple):
    key: str
    operator: str
    """The operator as written; `exists` or `!` if there is no value."""
    values: tuple[str, ...]


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while match := _TOKEN.match(text, position):
        symbol, word = match.groups()
        tokens.append(_Token(symbol, symbol) if symbol else _Token(word if word in ("in", "notin") else "word", word))
        position = match.end()
    return [*tokens, _Token(_END, "")]


class LabelSelectorParser:
    """Parses terms one by one. A keyword counts as a word where only a word is allowed."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def is_at_end(self) -> bool:
        """Whether nothing is left. Raise SelectorError if the next token cannot start a term."""
        token = self._peek()
        if token.kind not in ("word", "!", _END):
            _fail(token, ", expected: !, identifier, or 'end of string'")
        return token.kind == _END

    def key(self) -> tuple[str, bool]:
        """Parse the key; return it, and whether `!` precedes it."""
        token = self._take_token()
        is_absent = token.kind == "!"
        if is_absent:
            token = self._take_token()
        if token.kind != "word":
            _fail(token, ", expected: identifier")
        return token.text, is_absent

    def rest(self, key: str, is_absent: bool) -> LabelTerm:
        """Parse the rest of a term after its key."""
        if is_absent or self._peek().kind in _COMMA_OR_END:
            return LabelTerm(key, "!" if is_absent else "exists", ())
        token = self._tokens[self._at]
        self._at += 1
        if token.kind not in ("in", "notin", "=", "==", "!=", ">", "<"):
            _fail(token, ", expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if token.kind in ("in", "notin") else {self._value()}
        return LabelTerm(key, token.kind, tuple(sorted(values)))

    def separator(self) -> None:
        """Parse a comma that is followed by another term, or the end."""
        token = self._take_token()
        if token.kind not in _COMMA_OR_END:
            _fail(token, ", expected: ',' or 'end of string'")
        if token.kind == "," and self._peek().kind not in ("word", "!"):
            _fail(self._peek(), ", expected: identifier after ','")

    def _peek(self) -> _Token:
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        return _Token("word", token.text) if token.kind in ("in", "notin") else token

    def _take_token(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _value(self) -> str:
        if self._peek().kind in _COMMA_OR_END:
            return ""
        token = self._take_token()
        if token.kind != "word":
            _fail(token, ", expected: identifier")
        return token.text

    def _set(self) -> set[str]:
        opening = self._take_token()
        if opening.kind != "(":
            _fail(opening, " expected: '('")
        if self._peek().kind == ")":
            self._take_token()
            return {""}
        if self._peek().kind not in ("word", ","):
            _fail(self._peek(), ", expected: ',', ')' or identifier")
        return self._members()

    def _members(self) -> set[str]:
        """Parse up to the closing parenthesis; nothing between two commas is the empty value."""
        members: set[str] = set()
        while True:
            token = self._take_token()
            if token.kind == "word":
                members.add(token.text)
                if self._peek().kind not in (",", ")"):
                    _fail(self._peek(), ", expected: ',' or ')'")
            elif token.kind == ",":
                if not members or self._peek().kind in (",", ")"):
                    members.add("")
            else:
                _fail(token, ", expected: ',', or identifier")
            if self._peek().kind == ")":
                self._take_token()
                return members


def _fail(token: _Token, expectation: str) -> NoReturn:
    raise SelectorError(f"found '{token.text}'{expectation}")
