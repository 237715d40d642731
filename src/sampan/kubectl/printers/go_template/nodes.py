"""The syntax tree of a Go template. The text of a node appears in error messages (`at <.spec.x>`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sampan.api.go_compat.gotext import quote


@dataclass(eq=False, slots=True)
class TemplateNode:
    position: int


@dataclass(eq=False, slots=True)
class TextNode(TemplateNode):
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False, slots=True)
class DotNode(TemplateNode):
    def __str__(self) -> str:
        return "."


@dataclass(eq=False, slots=True)
class NilNode(TemplateNode):
    def __str__(self) -> str:
        return "nil"


@dataclass(eq=False, slots=True)
class LiteralNode(TemplateNode):
    """A boolean, number or string constant."""

    text: str
    value: Any

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False, slots=True)
class IdentifierNode(TemplateNode):
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False, slots=True)
class FieldNode(TemplateNode):
    names: list[str]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


@dataclass(eq=False, slots=True)
class VariableNode(TemplateNode):
    name: str
    names: list[str]

    def __str__(self) -> str:
        return self.name + "".join(f".{name}" for name in self.names)


@dataclass(eq=False, slots=True)
class ChainNode(TemplateNode):
    """A term followed by fields: `(pipeline).a.b`."""

    term: TemplateNode
    names: list[str]

    def __str__(self) -> str:
        term = f"({self.term})" if isinstance(self.term, PipelineNode) else str(self.term)
        return term + "".join(f".{name}" for name in self.names)


@dataclass(eq=False, slots=True)
class CommandNode(TemplateNode):
    operands: list[TemplateNode] = field(default_factory=list)

    def __str__(self) -> str:
        return " ".join(f"({word})" if isinstance(word, PipelineNode) else str(word) for word in self.operands)


@dataclass(eq=False, slots=True)
class PipelineNode(TemplateNode):
    variables: list[str] = field(default_factory=list)
    is_assignment: bool = False
    commands: list[CommandNode] = field(default_factory=list)

    def __str__(self) -> str:
        sign = "=" if self.is_assignment else ":="
        declaration = f"{', '.join(self.variables)} {sign} " if self.variables else ""
        return declaration + " | ".join(str(command) for command in self.commands)


@dataclass(eq=False, slots=True)
class ActionNode(TemplateNode):
    pipeline: PipelineNode

    def __str__(self) -> str:
        return f"{{{{{self.pipeline}}}}}"


@dataclass(eq=False, slots=True)
class ContentNode(TemplateNode):
    nodes: list[TemplateNode] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join(str(node) for node in self.nodes)


@dataclass(eq=False, slots=True)
class BranchNode(TemplateNode):
    """An `if`, `with` or `range` with its body and its else part."""

    keyword: str
    pipeline: PipelineNode
    body: ContentNode
    otherwise: ContentNode | None

    def __str__(self) -> str:
        otherwise = f"{{{{else}}}}{self.otherwise}" if self.otherwise is not None else ""
        return f"{{{{{self.keyword} {self.pipeline}}}}}{self.body}{otherwise}{{{{end}}}}"


@dataclass(eq=False, slots=True)
class KeywordNode(TemplateNode):
    """An action that consists of a keyword."""

    keyword: str

    def __str__(self) -> str:
        return f"{{{{{self.keyword}}}}}"


@dataclass(eq=False, slots=True)
class LoopControlNode(KeywordNode):
    """A `break` or `continue`."""


@dataclass(eq=False, slots=True)
class InvocationNode(TemplateNode):
    """A `template` action."""

    name: str
    pipeline: PipelineNode | None

    def __str__(self) -> str:
        argument = f" {self.pipeline}" if self.pipeline is not None else ""
        return f"{{{{template {quote(self.name)}{argument}}}}}"


@dataclass(eq=False, slots=True)
class TerminatorNode(KeywordNode):
    """An `end` or `else`, which ends a list of nodes."""
