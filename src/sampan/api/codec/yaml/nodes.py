"""The first document of a YAML text as a tree of nodes, with aliases not yet expanded.

It is built from the C parser's events with an explicit stack: nesting is bounded here, and nothing recurses on the
input.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import yaml
from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from sampan.api import limits

Kind = Literal["scalar", "mapping", "sequence", "alias"]

MAX_DEPTH: Final = 500
"""Reading and writing take one stack frame per level; this stays well within Python's stack."""
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_MIN_NODE_BYTES: Final = 2
"""The minimum that every node adds to the JSON form: a separator and another character."""
_KINDS: Final[dict[type, Kind]] = {
    yaml.ScalarEvent: "scalar",
    yaml.MappingStartEvent: "mapping",
    yaml.SequenceStartEvent: "sequence",
    yaml.AliasEvent: "alias",
}


class YamlError(ValueError):
    """The text is not YAML, or has no JSON form. The message is that of kube-apiserver."""


class YamlTooLargeError(YamlError):
    """The JSON form of the text is larger than a request body may be, or has too many values."""


class YamlNode:
    __slots__ = ("children", "implicit", "kind", "line", "tag", "target", "value")

    def __init__(self, kind: Kind, line: int) -> None:
        self.kind = kind
        self.line = line
        self.value = ""
        """The text of a scalar, or the name of an alias."""
        self.tag = ""
        """The tag as written, with `!!` for the standard prefix; empty if there is none."""
        self.implicit = False
        """Whether a scalar has neither quotes nor a tag, so that its text determines its type."""
        self.children: Sequence[YamlNode] = () if kind == "scalar" or kind == "alias" else []
        """The items of a sequence; keys and values alternating for a mapping."""
        self.target: YamlNode | None = None
        """The node that an alias refers to."""


def parse_first_document(source: bytes) -> YamlNode | None:
    """Return the root of the first document, or None if the text has no document."""
    try:
        return _build(_events(source))
    except ReaderError as error:
        raise YamlError(f"yaml: {error.reason}") from error
    except MarkedYAMLError as error:
        raise YamlError(
            f"yaml: {_format_line(error)}{error.problem or 'unknown problem parsing YAML content'}"
        ) from error


def _events(source: bytes) -> Iterator[Any]:
    """Yield the events up to the end of the first document; the rest is not parsed."""
    loader = yaml.CSafeLoader(source or b"\n")
    try:
        while loader.check_event():
            event = loader.get_event()
            yield event
            if isinstance(event, yaml.DocumentEndEvent):
                return
    finally:
        loader.dispose()


def _format_line(error: MarkedYAMLError) -> str:
    """Return the line as kube-apiserver counts it: from one in errors of its scanner, from zero in errors of its
    parser."""
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + isinstance(error, ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    else:
        line = 0
    return f"line {line}: " if line else ""


def _build(events: Iterator[Any]) -> YamlNode | None:
    anchors: dict[str, YamlNode] = {}
    stack: list[Any] = []
    root: YamlNode | None = None
    count = size = 0
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            continue
        if isinstance(event, yaml.DocumentStartEvent):
            _check_version(event)
        node = _node(event, anchors)
        if node is None:
            continue
        count += 1
        size += len(node.value) + _MIN_NODE_BYTES
        if count > limits.BODY_VALUES:
            raise YamlTooLargeError(f"limit is {limits.BODY_VALUES} values")
        if size > limits.DECODED_BODY_BYTES:
            raise YamlTooLargeError(f"limit is {limits.DECODED_BODY_BYTES}")
        if stack:
            stack[-1].append(node)
        else:
            root = node
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(node.children)
            if len(stack) > MAX_DEPTH:
                raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
    return root


def _check_version(event: Any) -> None:
    if event.version not in (None, (1, 1)):
        line = event.start_mark.line
        raise YamlError(f"yaml: {f'line {line}: ' if line else ''}found incompatible YAML document")


def _node(event: Any, anchors: dict[str, YamlNode]) -> YamlNode | None:
    kind = _KINDS.get(type(event))
    if kind is None:
        return None
    node = YamlNode(kind, event.start_mark.line)
    if kind == "alias":
        node.value, node.target = event.anchor, anchors.get(event.anchor)
        if node.target is None:
            raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
        return node
    if kind == "scalar":
        node.value, node.implicit = event.value, event.implicit[0]
        node.tag = (event.tag or "").replace(_TAG_PREFIX, "!!", 1)
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node
