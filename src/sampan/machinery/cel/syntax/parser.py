"""The parser: operator precedence over the tokens, with the messages of cel-go's generated parser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sampan.api.limits import CEL_DEPTH, CEL_NESTING, CEL_SOURCE_CHARACTERS
from sampan.machinery.cel.errors import CompileError, Issue, format_issues
from sampan.machinery.cel.escapes import RESERVED
from sampan.machinery.cel.syntax import lexer
from sampan.machinery.cel.syntax.ast import (
    CallNode,
    ExpressionNode,
    Ident,
    ListNode,
    Literal,
    Logical,
    MapNode,
    Select,
    StructNode,
    qualified_name,
)
from sampan.machinery.cel.syntax.lexer import (
    BYTES,
    END,
    FLOAT,
    IDENTIFIER,
    INT,
    KEYWORDS,
    OPERATOR,
    STRING,
    UINT,
    Token,
    tokenize,
)
from sampan.machinery.cel.syntax.macros import Key, Macro, MacroError

_RESERVED: Final = RESERVED - KEYWORDS
"""Words that cannot be identifiers. Keywords are tokens of their own."""
_RELATION, _SUM, _PRODUCT = 3, 4, 5
_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), _RELATION),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_FUNCTIONS: Final = {**{op: f"_{op}_" for op in _PRECEDENCE}, "in": "@in"}
_VALUES: Final = {
    INT: lexer.int_value,
    UINT: lexer.uint_value,
    FLOAT: lexer.float_value,
    STRING: lexer.string_value,
    BYTES: lexer.bytes_value,
}
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_OPERAND_STARTS: Final = frozenset(("[", "{", "(", ".", "-", "!", "true", "false", "null"))
_KEYWORD_VALUES: Final = {"true": True, "false": False, "null": None}


class _SyntaxError(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def parse(source: str, macros: Mapping[Key, Macro], *, has_optionals: bool = True) -> ExpressionNode:
    """Parse an expression. Raise CompileError with the syntax errors."""
    if len(source) > CEL_SOURCE_CHARACTERS:
        words = f"expression code point size exceeds limit: size: {len(source)}, limit {CEL_SOURCE_CHARACTERS}"
        raise CompileError(f"ERROR: <input>:1:1: {words}")
    issues: list[Issue] = []
    tokens = tokenize(source, issues)
    parser = _Parser(tokens, macros, issues, has_optionals=has_optionals)
    node: ExpressionNode | None = None
    try:
        node = parser.parse()
    except _SyntaxError as error:
        issues.append(Issue(error.offset, str(error)))
    if issues or node is None:
        raise CompileError(format_issues(source, issues))
    return node


class _Parser:
    def __init__(
        self, tokens: Sequence[Token], macros: Mapping[Key, Macro], issues: list[Issue], *, has_optionals: bool
    ) -> None:
        self._tokens, self._macros, self._issues, self._has_optionals = tokens, macros, issues, has_optionals
        self._at = 0
        self._nesting = 0

    def parse(self) -> ExpressionNode:
        node = self._expression()
        token = self._tokens[self._at]
        if token.kind != END:
            is_last = self._tokens[self._at + 1].kind == END
            self._fail(token, "<EOF>", is_extraneous=is_last)
        return node

    # -- tokens

    def _fail(self, token: Token, expected: str, *, is_extraneous: bool = False) -> None:
        words = "extraneous" if is_extraneous else "mismatched"
        raise _SyntaxError(token.offset, f"Syntax error: {words} input '{token.text}' expecting {expected}")

    def _is(self, text: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == OPERATOR and token.text == text

    def _take(self, text: str) -> Token | None:
        token = self._tokens[self._at]
        if token.kind == OPERATOR and token.text == text:
            self._at += 1
            return token
        return None

    def _expect(self, text: str) -> Token:
        token = self._take(text)
        if token is None:
            self._fail(self._tokens[self._at], f"'{text}'")
        assert token is not None
        return token

    # -- expressions

    def _expression(self) -> ExpressionNode:
        """Parse a conditional, or an expression of higher precedence."""
        self._nesting += 1
        if self._nesting > CEL_NESTING:
            raise _SyntaxError(self._tokens[self._at].offset, f"expression recursion limit exceeded: {CEL_NESTING}")
        node = self._binary(1)
        question = self._take("?")
        if question:
            then = self._binary(1)
            self._expect(":")
            otherwise = self._expression()
            node = self._deep(CallNode(question.offset, "_?_:_", (node, then, otherwise)))
        self._nesting -= 1
        return node

    def _binary(self, minimum: int) -> ExpressionNode:
        """Parse operators of at least this precedence, all of which are left-associative."""
        left = self._operand()
        while True:
            token = self._tokens[self._at]
            precedence = _PRECEDENCE.get(token.text, 0) if token.kind == OPERATOR else 0
            if precedence < minimum or not precedence:
                return left
            if precedence <= 2:
                left = self._logical(left, token.text, precedence)
                continue
            self._at += 1
            right = self._binary(precedence + 1)
            left = self._deep(CallNode(token.offset, _FUNCTIONS[token.text], (left, right)))

    def _logical(self, left: ExpressionNode, operator: str, precedence: int) -> ExpressionNode:
        terms, offsets = [left], []
        while token := self._take(operator):
            offsets.append(token.offset)
            terms.append(self._binary(precedence + 1))
        return self._deep(Logical(offsets, terms, is_and=operator == "&&"))

    def _operand(self) -> ExpressionNode:
        """Parse negations, then a primary with its selections, calls and indices."""
        operator = self._tokens[self._at]
        count = 0
        is_sign = False
        if operator.kind == OPERATOR and operator.text in ("!", "-"):
            while self._take(operator.text):
                count += 1
            if operator.text == "-" and self._tokens[self._at].kind in (INT, FLOAT):
                is_sign = True
                count -= 1
        node = self._member(self._parse_signed_number() if is_sign else self._primary())
        if count % 2:
            node = self._deep(CallNode(operator.offset, "-_" if operator.text == "-" else "!_", (node,)))
        return node

    def _parse_signed_number(self) -> ExpressionNode:
        """Parse a number with its sign: the smallest int has no positive counterpart."""
        sign, token = self._tokens[self._at - 1], self._tokens[self._at]
        self._at += 1
        return self._literal(sign.offset, token.kind, f"-{token.text}")

    def _literal(self, offset: int, kind: str, text: str) -> ExpressionNode:
        try:
            return Literal(offset, _VALUES[kind](text))
        except lexer.LiteralError as error:
            self._issues.append(Issue(offset, str(error)))
            return Literal(offset, None)

    def _primary(self) -> ExpressionNode:
        token = self._tokens[self._at]
        kind = token.kind
        if kind in _VALUES:
            self._at += 1
            return self._literal(token.offset, kind, token.text)
        if kind == IDENTIFIER:
            return self._identifier(token, "")
        if kind == OPERATOR:
            text = token.text
            if text in _KEYWORD_VALUES:
                self._at += 1
                return Literal(token.offset, _KEYWORD_VALUES[text])
            if text == "(":
                self._at += 1
                node = self._expression()
                self._expect(")")
                return node
            if text == "[":
                return self._list()
            if text == "{":
                self._at += 1
                keys, values, optional = self._entries()
                return self._deep(MapNode(token.offset, keys, values, optional))
            if text == "." and self._tokens[self._at + 1].kind == IDENTIFIER:
                self._at += 1
                return self._identifier(self._tokens[self._at], ".")
        next_token = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        starts_operand = next_token.text in _OPERAND_STARTS or next_token.kind not in (OPERATOR, END)
        self._fail(token, _OPERAND, is_extraneous=kind != END and starts_operand)
        raise AssertionError

    def _identifier(self, token: Token, prefix: str) -> ExpressionNode:
        """Parse a variable or a function call."""
        self._at += 1
        if token.text in _RESERVED:
            self._issues.append(Issue(token.offset, f"reserved identifier: {token.text}"))
        if self._is("("):
            return self._call(token.text if not prefix else prefix + token.text, None)
        return Ident(token.offset, prefix + token.text)

    def _member(self, node: ExpressionNode) -> ExpressionNode:
        while True:
            token = self._tokens[self._at]
            if token.kind != OPERATOR:
                return node
            if token.text == ".":
                node = self._selection(node, token)
            elif token.text == "[":
                node = self._index(node, token)
            elif token.text == "{" and (name := qualified_name(node)) is not None:
                self._at += 1
                node = self._struct(name, token.offset)
            else:
                return node

    def _selection(self, node: ExpressionNode, dot: Token) -> ExpressionNode:
        self._at += 1
        question = self._take("?")
        token = self._tokens[self._at]
        if token.kind != IDENTIFIER:
            self._fail(token, "IDENTIFIER")
        self._at += 1
        if question:
            self._optional_syntax(question, "unsupported syntax '.?'")
            return self._deep(Select(dot.offset, node, token.text, is_optional=True))
        if self._is("("):
            return self._call(token.text, node)
        return self._deep(Select(dot.offset, node, token.text))

    def _index(self, node: ExpressionNode, bracket: Token) -> ExpressionNode:
        self._at += 1
        question = self._take("?")
        if question:
            self._optional_syntax(question, "unsupported syntax '[?'")
        index = self._expression()
        self._expect("]")
        return self._deep(CallNode(bracket.offset, "_[?_]" if question else "_[_]", (node, index)))

    def _call(self, name: str, target: ExpressionNode | None) -> ExpressionNode:
        parenthesis = self._expect("(")
        args: list[ExpressionNode] = []
        if not self._take(")"):
            args.append(self._expression())
            while self._take(","):
                args.append(self._expression())
            self._expect(")")
        macro = self._macros.get((name, len(args), target is not None))
        if macro is not None:
            try:
                node = macro(parenthesis.offset, target, args)
            except MacroError as error:
                self._issues.append(Issue(error.offset, str(error)))
                node = Literal(parenthesis.offset, None)
            if node is not None:
                return self._deep(node)
        return self._deep(CallNode(parenthesis.offset, name, args, target))

    def _list(self) -> ExpressionNode:
        bracket = self._expect("[")
        items: list[ExpressionNode] = []
        optional: list[int] = []
        while not self._is("]"):
            if question := self._take("?"):
                self._optional_syntax(question, "unsupported syntax '?'")
                optional.append(len(items))
            items.append(self._expression())
            if not self._take(","):
                break
        self._expect("]")
        return self._deep(ListNode(bracket.offset, items, optional))

    def _field_name(self) -> ExpressionNode:
        """Parse the name of a field, which may be a reserved word."""
        token = self._tokens[self._at]
        if token.kind != IDENTIFIER or self._tokens[self._at + 1].text != ":":
            return self._expression()
        self._at += 1
        return Ident(self._tokens[self._at].offset, token.text)  # errors about a field are located at its colon

    def _entries(
        self, *, has_field_names: bool = False
    ) -> tuple[list[ExpressionNode], list[ExpressionNode], list[int]]:
        """Parse keys and values up to the closing brace; return them, and the indices of the optional entries."""
        keys: list[ExpressionNode] = []
        values: list[ExpressionNode] = []
        optional: list[int] = []
        while not self._is("}"):
            if question := self._take("?"):
                self._optional_syntax(question, "unsupported syntax '?'")
                optional.append(len(keys))
            keys.append(self._field_name() if has_field_names else self._expression())
            self._expect(":")
            values.append(self._expression())
            if not self._take(","):
                break
        self._expect("}")
        return keys, values, optional

    def _struct(self, name: str, offset: int) -> ExpressionNode:
        keys, values, optional = self._entries(has_field_names=True)
        fields: list[tuple[str, int]] = []
        for key in keys:
            if not isinstance(key, Ident):
                raise _SyntaxError(key.offset, "Syntax error: mismatched input expecting IDENTIFIER")
            fields.append((key.name, key.offset))
        return self._deep(StructNode(offset, name, fields, values, optional))

    def _optional_syntax(self, token: Token, message: str) -> None:
        if not self._has_optionals:
            self._issues.append(Issue(token.offset, message))

    def _deep(self, node: ExpressionNode) -> ExpressionNode:
        node.depth = 1 + max((child.depth for child in node.children()), default=0)
        if node.depth > CEL_DEPTH:
            raise _SyntaxError(node.offset, f"expression recursion limit exceeded: {CEL_DEPTH}")
        return node
