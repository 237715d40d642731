"""Types of mutating admission policies: `Object{...}` for apply configurations, `JSONPatch{...}` for JSON patches
(`k8s.io/apiserver/pkg/cel/mutation`)."""

from __future__ import annotations

from sampan.machinery.cel.checker.declarations import Library, function
from sampan.machinery.cel.checker.types import DYN, STRING, ObjectType, OpenObjectType
from sampan.machinery.cel.syntax.ast import ExpressionNode, StructNode

OBJECT = OpenObjectType("Object")
JSON_PATCH = ObjectType("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})


def _escape_key(text: str) -> str:
    """Return a key as it is written in a JSON pointer."""
    return text.replace("~", "~0").replace("/", "~1")


LIBRARY = Library(
    {"jsonpatch.escapeKey": [function(STRING, result=STRING, run=_escape_key)]}, types=(OBJECT, JSON_PATCH)
)


def find_misnamed_object(tree: ExpressionNode) -> str:
    """Return the error of an expression that constructs an object whose type does not fit the field in which it is, or
    an empty string."""
    pending: list[ExpressionNode] = [tree]
    while pending:
        node = pending.pop()
        pending += node.children()
        if not isinstance(node, StructNode) or not OBJECT.includes(node.name):
            continue
        for field, value in zip(node.fields, node.values, strict=True):
            items = [value, *value.children()] if value.kind == "list" else [value]
            for item in items:
                expected = f"{node.name}.{field}"
                if isinstance(item, StructNode) and OBJECT.includes(item.name) and item.name != expected:
                    return (
                        f'unexpected type name "{item.name}", expected "{expected}", which matches field name path '
                        "from root Object type"
                    )
    return ""
