"""Decodes YAML to JSON values, with the quirks of kube-apiserver.

Only the first document is read. Of a duplicate key the last value counts, and a strict error reports it. Merge keys are
applied in the order of the text. Keys that are not strings become strings. Aliases are expanded up to the share of the
document that kube-apiserver allows, and as long as the JSON form is no larger than a request body may be.
"""

import math
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from sampan.api import limits
from sampan.api.codec.yaml.nodes import MAX_DEPTH, YamlError, YamlNode, YamlTooLargeError, parse_first_document
from sampan.api.codec.yaml.scalars import Tag, resolve
from sampan.api.go_compat.gotext import float_text, go_syntax

_RESOLVED_TAGS: Final = frozenset({"", "!!str", "!!bool", "!!int", "!!float", "!!null", "!!timestamp"})
_MAX_INT: Final = 2**63 - 1
_MAX_SHOWN: Final = 2000
"""The maximum length of a value in an error message, in characters."""

_ESCAPED = re.compile(r'["\\]')
_encode = msgspec.json.Encoder().encode

_EXCESSIVE: Final = "yaml: document contains excessive aliasing"
_ALIASES_FREE: Final = 100
_DECODED_FREE: Final = 1000
_RATIO_LOW: Final = 400_000
_RATIO_HIGH: Final = 4_000_000


class DecodedYaml(NamedTuple):
    value: Any
    strict_errors: list[str]
    """Errors of strict decoding, such as `line 5: key "data" already set in map`; at most 100."""


def decode(source: bytes) -> DecodedYaml:
    """Decode the first document of a text. Raise YamlError, and YamlTooLargeError if its JSON form is larger than
    `limits.DECODED_BODY_BYTES`."""
    root = parse_first_document(source)
    reader = _Reader()
    value = None if root is None else reader.value(root, 0)
    return DecodedYaml(value, reader.strict_errors)


def strict_message(strict_errors: list[str]) -> str:
    """Return the message of the single error with which strict decoding responds to several errors."""
    return "yaml: unmarshal errors:\n" + "\n".join(f"  {error}" for error in strict_errors)


class _MappingBuilder:
    """A mapping under construction. Keys of different types are distinct until they become strings."""

    __slots__ = ("keys_seen", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.keys_seen: set[tuple[type, Any]] = set()


class _Reader:
    def __init__(self) -> None:
        self.strict_errors: list[str] = []
        self._bytes = 0
        """The size of the JSON form of the nodes read so far."""
        self._decoded = 0
        self._aliased = 0
        self._alias_depth = 0
        self._open_aliases: set[int] = set()

    def value(self, node: YamlNode, depth: int) -> Any:
        return self._select_reader(node)(node, depth)

    def _select_reader(self, node: YamlNode) -> Callable[[YamlNode, int], Any]:
        """Return the method that reads a node. It is called in two steps, so that a level of nesting takes one stack
        frame."""
        if node.kind == "scalar":
            return self._scalar
        if node.kind == "sequence":
            return self._sequence
        return self._alias if node.kind == "alias" else self._mapping

    def _scalar(self, node: YamlNode, depth: int) -> Any:
        self._count(depth)
        value = _json_number(_scalar(node))
        self._add_bytes(value)
        return value

    def _sequence(self, node: YamlNode, depth: int) -> list[Any]:
        self._count(depth)
        self._add_bytes("")
        items = []
        for child in node.children:
            items.append(self._select_reader(child)(child, depth + 1))  # noqa: PERF401 - a comprehension takes a frame
        return items

    def _alias(self, node: YamlNode, depth: int) -> Any:
        self._count(depth)
        with self._expanded(node) as target:
            return self._select_reader(target)(target, depth + 1)

    def _mapping(self, node: YamlNode, depth: int, into: _MappingBuilder | None = None) -> dict[str, Any]:
        self._count(depth)
        self._add_bytes("")
        mapping = _MappingBuilder() if into is None else into
        pairs = iter(node.children)
        for key_node, value_node in zip(pairs, pairs, strict=True):
            if _is_merge(key_node):
                self._merge(value_node, mapping, depth + 1)
            else:
                key = self._key(key_node, depth + 1)
                value = self._select_reader(value_node)(value_node, depth + 1)
                self._set(mapping, key, value, value_node.line)
        return mapping.values

    def _set(self, mapping: _MappingBuilder, key: Any, value: Any, line: int) -> None:
        text, typed = _key_text(key, value), (type(key), key)
        if typed not in mapping.keys_seen:
            mapping.keys_seen.add(typed)
        elif len(self.strict_errors) < limits.STRICT_ERRORS:
            shown = key[: limits.STRICT_ERROR_LENGTH] if isinstance(key, str) else key
            self.strict_errors.append(f"line {line + 1}: key {go_syntax(shown)} already set in map")
        mapping.values[text] = value

    def _add_bytes(self, value: Any) -> None:
        """Count the JSON of a key or scalar with its separator; "" counts as the brackets of a list or object."""
        if isinstance(value, str) and not (value.isascii() and value.isprintable() and not _ESCAPED.search(value)):
            self._bytes += len(_encode(value)) + 1
        else:
            self._bytes += len(value) + 3 if isinstance(value, str) else len(str(value)) + 1
        if self._bytes > limits.DECODED_BODY_BYTES:
            raise YamlTooLargeError(f"limit is {limits.DECODED_BODY_BYTES}")

    def _count(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        self._decoded += 1
        if self._alias_depth:
            self._aliased += 1
            if self._aliased > limits.ALIASED_VALUES:
                raise YamlError(_EXCESSIVE)
            if self._aliased > _ALIASES_FREE and self._decoded > _DECODED_FREE:
                self._check_aliases()

    def _check_aliases(self) -> None:
        beyond = (min(self._decoded, _RATIO_HIGH) - _RATIO_LOW) / (_RATIO_HIGH - _RATIO_LOW)
        if self._aliased / self._decoded > 0.99 - 0.89 * max(beyond, 0):
            raise YamlError(_EXCESSIVE)

    @contextmanager
    def _expanded(self, alias: YamlNode) -> Iterator[YamlNode]:
        """Yield the target of an alias, and count the nodes that are read inside the block as part of its expansion."""
        if id(alias) in self._open_aliases:
            raise YamlError(f"yaml: anchor '{alias.value}' value contains itself")
        assert alias.target is not None
        self._open_aliases.add(id(alias))
        self._alias_depth += 1
        yield alias.target
        self._alias_depth -= 1
        self._open_aliases.discard(id(alias))

    def _key(self, node: YamlNode, depth: int) -> Any:
        if node.kind == "scalar":
            self._count(depth)
            key = _scalar(node)
            self._add_bytes(key)
            return key
        if node.kind == "alias":
            self._count(depth)
            with self._expanded(node) as target:
                return self._key(target, depth + 1)
        raise YamlError(f"yaml: invalid map key: {go_syntax(self.value(node, depth))[:_MAX_SHOWN]}")

    def _merge(self, node: YamlNode, mapping: _MappingBuilder, depth: int) -> None:
        if node.kind != "sequence":
            self._merge_one(node, mapping, depth)
            return
        for child in reversed(node.children):  # of several merged mappings the earlier ones take precedence
            self._merge_one(child, mapping, depth)

    def _merge_one(self, node: YamlNode, mapping: _MappingBuilder, depth: int) -> None:
        target = node.target if node.kind == "alias" else node
        if target is None or target.kind != "mapping":
            raise YamlError("yaml: map merge requires map or sequence of maps as the value")
        if node.kind == "alias":
            self._count(depth)
            with self._expanded(node):
                self._mapping(target, depth + 1, mapping)
        else:
            self._mapping(node, depth, mapping)


def _is_merge(node: YamlNode) -> bool:
    return node.kind == "scalar" and node.value == "<<" and (node.implicit or node.tag == "!!merge")


def _scalar(node: YamlNode) -> Any:
    """Return the value of a scalar: a string, a number, a boolean or None."""
    if not node.tag and not node.implicit:
        return node.value
    if node.tag == "!!binary":
        return _binary(node.value)
    if node.tag not in _RESOLVED_TAGS or node.tag == "!!str":
        return node.value
    tag, value = resolve(node.value)
    return _as_tagged(node, tag, value) if node.tag else value


def _as_tagged(node: YamlNode, tag: Tag, value: Any) -> Any:
    if node.tag != "!!timestamp" and tag == "timestamp":
        tag, value = "str", node.value
    if node.tag == f"!!{tag}":
        return value
    if node.tag == "!!float" and tag == "int" and value <= _MAX_INT:
        return float(value)
    raise YamlError(f"yaml: cannot decode !!{tag} `{node.value}` as a {node.tag}")


def _binary(text: str) -> str:
    try:
        return b64decode(text.replace("\r", "").replace("\n", ""), validate=True).decode("utf-8", "replace")
    except Base64Error as error:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from error


def _json_number(value: Any) -> Any:
    """Return a number as JSON represents it: a whole float becomes an integer."""
    if isinstance(value, float):
        if not math.isfinite(value):
            shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
            raise YamlError(f"json: unsupported value: {shown}")
        if value.is_integer() and abs(value) < 2**63:
            return int(value)
    return value


def _key_text(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and key <= _MAX_INT:
        return str(key)
    if isinstance(key, float):
        return float_text(key, 32)
    kind, shown = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", f"0x{key:x}")
    shown_value = go_syntax(value, is_inner=False)[:_MAX_SHOWN]
    raise YamlError(f"unsupported map key of type: {kind}, key: {shown}, value: {shown_value}")
