"""Parser of Go templates (text/template/parse): the syntax tree of each defined template, or Go's error text."""

from __future__ import annotations

import re
from typing import NoReturn

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.printers.go_template.lexer import Lexer, TemplateToken, TokenType
from sampan.kubectl.printers.go_template.nodes import (
    ActionNode,
    BranchNode,
    ChainNode,
    CommandNode,
    ContentNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    InvocationNode,
    LiteralNode,
    LoopControlNode,
    NilNode,
    PipelineNode,
    TemplateNode,
    TerminatorNode,
    TextNode,
    VariableNode,
)
from sampan.kubectl.printers.go_template.values import Int, TemplateError

_OPERANDS = frozenset(
    {
        TokenType.BOOL,
        TokenType.CHARACTER_CONSTANT,
        TokenType.COMPLEX,
        TokenType.DOT,
        TokenType.FIELD,
        TokenType.IDENTIFIER,
        TokenType.NUMBER,
        TokenType.RAW_STRING,
        TokenType.STRING,
        TokenType.VARIABLE,
        TokenType.LEFT_PAREN,
    }
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<short>[abfnrtv\\'"])|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"""
    r"""|(?P<octal>[0-3][0-7]{2}))"""
)
_ESCAPED_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INVALID_SYNTAX = "invalid syntax"


class Parser:
    """Parses one template text. `templates` holds the trees by name when `parse` returns."""

    def __init__(self, *, name: str, text: str, functions: frozenset[str]) -> None:
        self.templates: dict[str, ContentNode] = {}
        self._name = name
        self._functions = functions
        self._tokens = Lexer(text).tokens()
        self._pending: list[TemplateToken] = []
        self._last = TemplateToken(TokenType.EOF, 0, "", 1)
        self._variables = ["$"]
        self._range_depth = 0
        self._action_line = 0

    def parse(self) -> None:
        try:
            self._parse_root()
        except RecursionError:
            self._fail("max expression depth exceeded")

    # -- tokens ------------------------------------------------------------------------------------------------------

    def _next(self) -> TemplateToken:
        if self._pending:
            return self._pending.pop()
        self._last = next(self._tokens, self._last)
        return self._last

    def _push_back(self, *tokens: TemplateToken) -> None:
        self._pending.extend(reversed(tokens))

    def _peek(self) -> TemplateToken:
        token = self._next()
        self._push_back(token)
        return token

    def _next_non_space(self) -> TemplateToken:
        while (token := self._next()).type is TokenType.SPACE:
            pass
        return token

    def _peek_non_space(self) -> TemplateToken:
        token = self._next_non_space()
        self._push_back(token)
        return token

    def _expect(self, context: str, *types: TokenType) -> TemplateToken:
        token = self._next_non_space()
        if token.type not in types:
            self._reject(token, context)
        return token

    def _fail(self, message: str) -> NoReturn:
        raise TemplateError(f"template: {self._name}:{self._last.line}: {message}")

    def _reject(self, token: TemplateToken, context: str) -> NoReturn:
        if token.type is not TokenType.ERROR:
            self._fail(f"unexpected {token} in {context}")
        origin = ""
        if self._action_line and self._action_line != token.line:
            origin = f" in action started at {self._name}:{self._action_line}"
            if token.text.endswith(" action"):
                origin = origin.removeprefix(" in action")
        self._fail(f"{token}{origin}")

    # -- lists and actions -------------------------------------------------------------------------------------------

    def _parse_root(self) -> None:
        root = ContentNode(self._peek().position)
        while self._peek().type is not TokenType.EOF:
            delimiter = self._next()
            if delimiter.type is TokenType.LEFT_DELIMITER:
                word = self._next_non_space()
                if word.is_keyword("define"):
                    self._parse_definition()
                    continue
                self._push_back(word)
            self._push_back(delimiter)
            node = self._text_or_action()
            if isinstance(node, TerminatorNode):
                self._fail(f"unexpected {node}")
            root.nodes.append(node)
        self._add(self._name, root)

    def _parse_definition(self) -> None:
        name = self._unquote(self._expect("define clause", TokenType.STRING, TokenType.RAW_STRING))
        self._expect("define clause", TokenType.RIGHT_DELIMITER)
        self._add(name, self._body_of_definition("define clause"))

    def _body_of_definition(self, context: str) -> ContentNode:
        variables, range_depth = self._variables, self._range_depth
        self._variables, self._range_depth = ["$"], 0
        body, end = self._item_list()
        if end.keyword != "end":
            self._fail(f"unexpected {end} in {context}")
        self._variables, self._range_depth = variables, range_depth
        return body

    def _add(self, name: str, tree: ContentNode) -> None:
        earlier = self.templates.get(name)
        if earlier is None or _is_blank(earlier):
            self.templates[name] = tree
        elif not _is_blank(tree):
            self._fail(f"template: multiple definition of template {quote(name)}")

    def _item_list(self) -> tuple[ContentNode, TerminatorNode]:
        nodes = ContentNode(self._peek_non_space().position)
        while self._peek_non_space().type is not TokenType.EOF:
            node = self._text_or_action()
            if isinstance(node, TerminatorNode):
                return nodes, node
            nodes.nodes.append(node)
        self._fail("unexpected EOF")

    def _text_or_action(self) -> TemplateNode:
        token = self._next_non_space()
        if token.type is TokenType.TEXT:
            return TextNode(token.position, token.text)
        if token.type is not TokenType.LEFT_DELIMITER:
            self._reject(token, "input")
        self._action_line = token.line
        node = self._action()
        self._action_line = 0
        return node

    def _action(self) -> TemplateNode:
        token = self._next_non_space()
        if token.type is TokenType.KEYWORD:
            match token.text:
                case "if" | "with" | "range":
                    return self._branch(token.text)
                case "end":
                    return TerminatorNode(self._expect("end", TokenType.RIGHT_DELIMITER).position, "end")
                case "else":
                    return self._parse_else()
                case "break" | "continue":
                    return self._loop_control(token)
                case "template":
                    return self._invocation()
                case "block":
                    return self._block()
        self._push_back(token)
        return ActionNode(token.position, self._pipeline("command", TokenType.RIGHT_DELIMITER))

    def _loop_control(self, token: TemplateToken) -> TemplateNode:
        after = self._next_non_space()
        if after.type is not TokenType.RIGHT_DELIMITER:
            self._reject(after, f"{{{{{token.text}}}}}")
        if not self._range_depth:
            self._fail(f"{{{{{token.text}}}}} outside {{{{range}}}}")
        return LoopControlNode(token.position, token.text)

    def _parse_else(self) -> TemplateNode:
        token = self._peek_non_space()
        if token.is_keyword("if") or token.is_keyword("with"):
            return TerminatorNode(token.position, "else")
        return TerminatorNode(self._expect("else", TokenType.RIGHT_DELIMITER).position, "else")

    def _branch(self, keyword: str) -> TemplateNode:
        mark = len(self._variables)
        pipeline = self._pipeline(keyword, TokenType.RIGHT_DELIMITER)
        self._range_depth += keyword == "range"
        body, end = self._item_list()
        self._range_depth -= keyword == "range"
        otherwise: ContentNode | None = None
        if end.keyword == "else":
            if keyword in ("if", "with") and self._peek().is_keyword(keyword):
                self._next()
                otherwise = ContentNode(end.position, [self._branch(keyword)])
            else:
                otherwise, end = self._item_list()
                if end.keyword != "end":
                    self._fail(f"expected end; found {end}")
        del self._variables[mark:]
        return BranchNode(pipeline.position, keyword, pipeline, body, otherwise)

    def _template_name(self, token: TemplateToken, context: str) -> str:
        if token.type not in (TokenType.STRING, TokenType.RAW_STRING):
            self._reject(token, context)
        return self._unquote(token)

    def _invocation(self) -> TemplateNode:
        token = self._next_non_space()
        name = self._template_name(token, "template clause")
        after = self._next_non_space()
        pipeline = None
        if after.type is not TokenType.RIGHT_DELIMITER:
            self._push_back(after)
            pipeline = self._pipeline("template clause", TokenType.RIGHT_DELIMITER)
        return InvocationNode(token.position, name, pipeline)

    def _block(self) -> TemplateNode:
        token = self._next_non_space()
        name = self._template_name(token, "block clause")
        pipeline = self._pipeline("block clause", TokenType.RIGHT_DELIMITER)
        self._add(name, self._body_of_definition("block clause"))
        return InvocationNode(token.position, name, pipeline)

    # -- pipelines ---------------------------------------------------------------------------------------------------

    def _pipeline(self, context: str, end: TokenType) -> PipelineNode:
        pipeline = PipelineNode(self._peek_non_space().position)
        self._declarations(pipeline, context)
        while (token := self._next_non_space()).type is not end:
            is_nil = token.is_keyword("nil")
            if token.type not in _OPERANDS and not is_nil:
                self._reject(token, context)
            self._push_back(token)
            pipeline.commands.append(self._command())
        if not pipeline.commands:
            self._fail(f"missing value for {context}")
        for stage, command in enumerate(pipeline.commands[1:], 2):
            if isinstance(command.operands[0], (LiteralNode, DotNode, NilNode)):
                self._fail(f"non executable command in pipeline stage {stage}")
        return pipeline

    def _declarations(self, pipeline: PipelineNode, context: str) -> None:
        while (variable := self._peek_non_space()).type is TokenType.VARIABLE:
            self._next_non_space()
            adjacent = self._next()
            after = self._next_non_space() if adjacent.type is TokenType.SPACE else adjacent
            if after.type in (TokenType.ASSIGN, TokenType.DECLARE):
                pipeline.is_assignment = after.type is TokenType.ASSIGN
                self._declare(pipeline, variable)
                return
            if after.type is TokenType.CHAR and after.text == ",":
                self._declare(pipeline, variable)
                if context != "range" or len(pipeline.variables) >= 2:
                    self._fail(f"too many declarations in {context}")
                followers = (TokenType.VARIABLE, TokenType.RIGHT_DELIMITER, TokenType.RIGHT_PAREN)
                if self._peek_non_space().type not in followers:
                    self._fail("range can only initialize variables")
                continue
            self._push_back(variable, adjacent, *([after] if after is not adjacent else []))
            return

    def _declare(self, pipeline: PipelineNode, variable: TemplateToken) -> None:
        pipeline.variables.append(variable.text)
        self._variables.append(variable.text)

    def _command(self) -> CommandNode:
        command = CommandNode(self._peek_non_space().position)
        while True:
            self._peek_non_space()
            operand = self._operand()
            if operand is not None:
                command.operands.append(operand)
            token = self._next()
            if token.type is TokenType.SPACE:
                continue
            if token.type in (TokenType.RIGHT_DELIMITER, TokenType.RIGHT_PAREN):
                self._push_back(token)
            elif token.type is not TokenType.PIPE:
                self._reject(token, "operand")
            break
        if not command.operands:
            self._fail("empty command")
        return command

    def _operand(self) -> TemplateNode | None:
        term = self._term()
        if term is None or self._peek().type is not TokenType.FIELD:
            return term
        position, names = self._peek().position, []
        while self._peek().type is TokenType.FIELD:
            names.append(self._next().text[1:])
        match term:
            case FieldNode():
                return FieldNode(position, term.names + names)
            case VariableNode():
                return VariableNode(position, term.name, term.names + names)
            case LiteralNode() | NilNode() | DotNode():
                self._fail(f"unexpected . after term {quote(str(term))}")
            case _:
                return ChainNode(position, term, names)

    def _term(self) -> TemplateNode | None:
        token = self._next_non_space()
        match token.type:
            case TokenType.IDENTIFIER:
                if token.text not in self._functions:
                    self._fail(f"function {quote(token.text)} not defined")
                return IdentifierNode(token.position, token.text)
            case TokenType.DOT:
                return DotNode(token.position)
            case TokenType.VARIABLE:
                if token.text not in self._variables:
                    self._fail(f"undefined variable {quote(token.text)}")
                return VariableNode(token.position, token.text, [])
            case TokenType.FIELD:
                return FieldNode(token.position, [token.text[1:]])
            case TokenType.BOOL:
                return LiteralNode(token.position, token.text, token.text == "true")
            case TokenType.CHARACTER_CONSTANT | TokenType.COMPLEX | TokenType.NUMBER:
                return LiteralNode(token.position, token.text, self._number(token))
            case TokenType.STRING | TokenType.RAW_STRING:
                return LiteralNode(token.position, token.text, self._unquote(token))
            case TokenType.LEFT_PAREN:
                return self._pipeline("parenthesized pipeline", TokenType.RIGHT_PAREN)
        if token.is_keyword("nil"):
            return NilNode(token.position)
        self._push_back(token)
        return None

    # -- constants ---------------------------------------------------------------------------------------------------

    def _unquote(self, token: TemplateToken) -> str:
        if token.type is TokenType.RAW_STRING:
            return token.text[1:-1].replace("\r", "")
        return self._unescape(token.text[1:-1])

    def _unescape(self, text: str) -> str:
        parts, position = [], 0
        data = bytearray()
        while (escape := text.find("\\", position)) >= 0:
            match = _ESCAPE.match(text, escape)
            if match is None or match["short"] == "'":
                self._fail(_INVALID_SYNTAX)
            data += text[position:escape].encode()
            data += _escape_bytes(match)
            position = match.end()
        data += text[position:].encode()
        parts.append(data.decode("utf-8", "surrogateescape"))
        return "".join(parts)

    def _number(self, token: TemplateToken) -> Int | float | complex:
        text = token.text
        if token.type is TokenType.CHARACTER_CONSTANT:
            inside = text[1:-1]
            match = _ESCAPE.fullmatch(inside)
            char = _escape_bytes(match).decode("utf-8", "replace") if match else inside
            if len(char) != 1:
                self._fail(f"malformed character constant: {text}" if char else _INVALID_SYNTAX)
            return Int(ord(char))
        try:
            if text.endswith("i"):
                return complex(text.replace("i", "j").replace("_", ""))
            return _integer(text)
        except ValueError:
            pass
        if not any(letter in text for letter in ".eEpP"):
            if re.fullmatch(r"[+-]?[0-9]+", text):
                self._fail(f"integer overflow: {quote(text)}")
            self._fail(f"illegal number syntax: {quote(text)}")
        try:
            return float.fromhex(text) if "x" in text.lower() else float(text)
        except (ValueError, OverflowError):
            self._fail(f"illegal number syntax: {quote(text)}")


def _escape_bytes(match: re.Match[str]) -> bytes:
    if match["short"]:
        return _ESCAPED_CHARACTERS.get(match["short"], match["short"]).encode()
    if match["x"]:
        return bytes([int(match["x"], 16)])
    if match["octal"]:
        return bytes([int(match["octal"], 8)])
    code = int(match["u"] or match["U"], 16)
    return chr(code).encode("utf-8", "replace") if code < 0x110000 else b"\xef\xbf\xbd"


def _integer(text: str) -> Int:
    """Return an integer constant of at most 64 bits; 017 is octal as in Go."""
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    if re.fullmatch(r"0[0-7_]+", digits):
        digits = f"0o{digits[1:]}"
    value = sign * int(digits, 0)
    if not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return Int(value)


def _is_blank(tree: ContentNode) -> bool:
    return all(isinstance(node, TextNode) and not node.text.strip() for node in tree.nodes)
