"""JSON patch (RFC 6902), with the deviations of kube-apiserver.

- `replace` of a missing key adds it, `add` without a value adds null, `copy` of a missing key copies null.
- `test` for null succeeds if the key is missing.
- Negative indices count from the end; a path needs no leading slash; the whole document can only be replaced.
"""

import re
from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.api.schema.tree import copy_value
from sampan.api.values.integers import parse_int64
from sampan.machinery.patch.errors import (
    MalformedPatch,
    RefusedPatch,
    TestFailed,
    TooManyOperations,
    are_identical,
    cannot_unmarshal,
    limit_depth,
)

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

Operation = dict[str, Any]
_PARTS = ("op", "path", "from", "value")
_INDEX = re.compile(r"[+-]?[0-9]+")


class JsonText:
    """The text of the value that a `test` operation expects.

    kube-apiserver compares the texts of numbers and strings, so that 1 is not equal to 1.0 or 1e0.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text

    def is_text_of(self, value: Any) -> bool:
        """Whether the value, encoded as kube-apiserver does it, has this text."""
        return _has_text(value, self._text)


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _has_text(value: Any, text: bytes) -> bool:
    if isinstance(value, dict):
        members = _decode_members(text) if text.startswith(b"{") else None
        return (
            members is not None
            and value.keys() == members.keys()
            and all(_has_text(value[key], bytes(member)) for key, member in members.items())
        )
    if isinstance(value, list):
        items = _decode_items(text) if text.startswith(b"[") else None
        return items is not None and len(value) == len(items) and all(map(_has_text, value, map(bytes, items)))
    return gotext.json_text(value).encode() == text


def with_texts(operations: list[Operation], body: bytes) -> list[Operation]:
    """Return the operations of a patch with the texts in its body instead of the values that they test."""
    if not any(operation.get("op") == "test" for operation in operations):
        return operations
    try:
        texts = msgspec.json.decode(body, type=list[dict[str, msgspec.Raw] | None])
    except (msgspec.MsgspecError, UnicodeDecodeError):  # only Go accepts such a text
        return operations
    return [
        {**operation, "value": JsonText(bytes(members["value"]))}
        if members and operation.get("op") == "test" and "value" in members
        else operation
        for operation, members in zip(operations, texts, strict=True)
    ]


def check_json_patch(patch: Any) -> list[Operation]:
    """Return the operations of a decoded patch body. Raise MalformedPatch with kube-apiserver's message."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise MalformedPatch(f"error decoding patch: {cannot_unmarshal(patch, 'value of type []handlers.jsonPatchOp')}")
    for operation in patch:
        if error := _validate_operation(operation):
            raise MalformedPatch(f"error decoding patch: {error}")
    return [operation or {} for operation in patch]


def _validate_operation(operation: Any) -> str:
    if operation is None:
        return ""
    if not isinstance(operation, dict):
        return cannot_unmarshal(operation, "value of type handlers.jsonPatchOp")
    for part in _PARTS[:3]:
        if not isinstance(operation.get(part, ""), str | None):
            return cannot_unmarshal(operation[part], f"struct field jsonPatchOp.{part} of type string")
    return ""


def unknown_parts(operations: list[Operation]) -> list[str]:
    """Return the field validation errors for members of operations that RFC 6902 does not define."""
    places = [(i, key) for i, operation in enumerate(operations) for key in operation if key not in _PARTS]
    return [f'json patch unknown field "[{i}].{key}"' for i, key in places]


@limit_depth
def apply_json_patch(document: Any, patch: list[Operation], *, max_copied_bytes: int = MAX_COPIED_BYTES) -> Any:
    """Return the document after all operations. It shares unchanged parts with the document and the patch."""
    if len(patch) > MAX_OPERATIONS:
        raise TooManyOperations(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}")
    work = _PatchedDocument(document, max_copied_bytes)
    for operation in patch:
        work.run(operation)
    return work.root


class _PatchedDocument:
    """A document being patched. A list or dict is copied the first time it changes, and only then."""

    def __init__(self, document: Any, max_copied_bytes: int) -> None:
        self.root = document
        self._copies_left = max_copied_bytes
        self._max_copied_bytes = max_copied_bytes
        self._shifts_left = limits.PATCH_SHIFTED_ITEMS
        self._own: dict[int, Any] = {}
        """The copies that this run made, by id. They are kept here so that no other object can reuse the id of one."""

    def run(self, operation: Operation) -> None:
        kind = operation.get("op")
        act = _ACTIONS.get(kind) if isinstance(kind, str) else None
        if act is None:
            raise RefusedPatch(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        act(self, operation)

    def add(self, operation: Operation) -> None:
        path = _pointer(operation, "path", "add operation failed to decode path: missing value")
        parent, key = self._parent(path, f'add operation does not apply: doc is missing path: "{path}": missing value')
        self._insert(parent, key, operation.get("value"), f"error in add for path: '{path}'")

    def remove(self, operation: Operation) -> None:
        path = _pointer(operation, "path", "remove operation failed to decode path: missing value")
        missing = f'remove operation does not apply: doc is missing path: "{path}": missing value'
        parent, key = self._parent(path, missing)
        self._delete(parent, key, f"error in remove for path: '{path}'")

    def replace(self, operation: Operation) -> None:
        path = _pointer(operation, "path", "replace operation failed to decode path: " + _NO_PATH)
        if path == "":
            self._replace_all(operation.get("value"))
            return
        missing = f"replace operation does not apply: doc is missing path: {path}: missing value"
        parent, key = self._parent(path, missing)
        if isinstance(parent, list):
            missing = f"replace operation does not apply: doc is missing key: {path}: missing value"
            parent[_position(parent, key, missing, is_whole=True)] = operation.get("value")
        else:
            parent[key] = operation.get("value")

    def _replace_all(self, value: Any) -> None:
        if not isinstance(value, dict | list):
            raise RefusedPatch("replace operation value must be object or array: %!w(<nil>)")
        self.root = value

    def move(self, operation: Operation) -> None:
        source = _pointer(operation, "from", "move operation failed to decode from: " + _NO_FROM)
        missing = f"move operation does not apply: doc is missing from path: {source}: missing value"
        parent, key = self._parent(source, missing)
        failed = f"error in move for path: '{key}'"
        value = _read(parent, key, failed)
        self._delete(parent, key, failed)
        path = _pointer(operation, "path", "move operation failed to decode path: " + _NO_PATH)
        missing = f"move operation does not apply: doc is missing destination path: {path}: missing value"
        parent, key = self._parent(path, missing)
        self._insert(parent, key, value, f"error in move for path: '{path}'")

    def copy(self, operation: Operation) -> None:
        source = _pointer(operation, "from", "copy operation failed to decode from: " + _NO_FROM)
        missing = f"copy operation does not apply: doc is missing from path: {source}: missing value"
        value = self._look_up(source, missing, f"error in copy for from: '{source}'")
        path = _pointer(operation, "path", "copy operation failed to decode path: missing value")
        missing = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        parent, key = self._parent(path, missing)
        self._count_copied(value)
        self._insert(parent, key, copy_value(value), "error while adding value during copy")

    def _count_copied(self, value: Any) -> None:
        if value is None:
            return
        self._copies_left -= len(msgspec.json.encode(value))
        if self._copies_left < 0:
            grown, limit = self._max_copied_bytes - self._copies_left, self._max_copied_bytes
            reason = f"the accumulated size increase of copy is {grown}, exceeding the limit {limit}"
            raise RefusedPatch(f"Unable to complete the copy, {reason}")

    def test(self, operation: Operation) -> None:
        path = _pointer(operation, "path", "test operation failed to decode path: " + _NO_PATH)
        missing = f"test operation does not apply: is missing path: {path}: missing value"
        actual = self._look_up(path, missing, f"error in test for path: '{path}'") if path else self.root
        expected = operation.get("value")
        is_equal = expected.is_text_of(actual) if isinstance(expected, JsonText) else are_identical(actual, expected)
        if not is_equal:
            raise TestFailed(f"testing value {path} failed: test failed")

    def _look_up(self, path: str, missing: str, failed: str) -> Any:
        """Return the value at a path, null for a missing key of an object. Nothing is copied."""
        keys = _keys(path, missing)
        node = self.root
        for key in keys[:-1]:
            node = _step(node, key, missing)
        return _read(_container(node, missing), keys[-1], failed)

    def _parent(self, path: str, missing: str) -> tuple[dict[str, Any] | list[Any], str]:
        """Return the container that the path ends in, copied together with all above it, and the last key."""
        keys = _keys(path, missing)
        parent = self.root = self._copy_if_shared(_container(self.root, missing))
        for key in keys[:-1]:
            below = self._copy_if_shared(_container(_step(parent, key, missing), missing))
            if isinstance(parent, list):
                parent[_position(parent, key, missing, is_whole=True)] = below
            else:
                parent[key] = below
            parent = below
        return parent, keys[-1]

    def _insert(self, parent: dict[str, Any] | list[Any], key: str, value: Any, failed: str) -> None:
        if isinstance(parent, dict):
            parent[key] = value
        elif key == "-":
            parent.append(value)
        else:
            wrong = f"value was not a proper array index: '{key}': "
            index = _index(key, len(parent) + 1, failed, wrong)
            self._count_shifted(len(parent) - index)
            parent.insert(index, value)

    def _delete(self, parent: dict[str, Any] | list[Any], key: str, failed: str) -> None:
        if isinstance(parent, list):
            index = _position(parent, key, failed)
            self._count_shifted(len(parent) - index)
            del parent[index]
        elif key in parent:
            del parent[key]
        else:
            raise RefusedPatch(f"{failed}: Unable to remove nonexistent key: {key}: missing value")

    def _count_shifted(self, items: int) -> None:
        self._shifts_left -= items
        if self._shifts_left < 0:
            raise TooManyOperations("The operations of the JSON patch shift too many items of lists")

    def _copy_if_shared(self, container: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
        if id(container) in self._own:
            return container
        copied = container.copy()
        self._own[id(copied)] = copied
        return copied


_ACTIONS = {
    "add": _PatchedDocument.add,
    "remove": _PatchedDocument.remove,
    "replace": _PatchedDocument.replace,
    "move": _PatchedDocument.move,
    "copy": _PatchedDocument.copy,
    "test": _PatchedDocument.test,
}
_NO_PATH = "operation missing path field: missing value"
_NO_FROM = "operation, missing from field: missing value"


def _pointer(operation: Operation, part: str, missing: str) -> str:
    pointer = operation.get(part)
    if not isinstance(pointer, str):
        raise RefusedPatch(missing)
    return pointer


def _keys(path: str, missing: str) -> list[str]:
    """Return the keys of a path, ignoring everything before the first slash."""
    parts = path.split("/")[1:]
    if not parts:
        raise RefusedPatch(missing)
    return [part.replace("~1", "/").replace("~0", "~") for part in parts] if "~" in path else parts


def _container(value: Any, missing: str) -> dict[str, Any] | list[Any]:
    if not isinstance(value, dict | list):
        raise RefusedPatch(missing)
    return value


def _step(place: Any, key: str, missing: str) -> Any:
    """Return the value at a key; any error on the way to the end of a path is reported as a missing path."""
    place = _container(place, missing)
    return place[_position(place, key, missing, is_whole=True)] if isinstance(place, list) else place.get(key)


def _read(parent: dict[str, Any] | list[Any], key: str, failed: str) -> Any:
    return parent[_position(parent, key, failed)] if isinstance(parent, list) else parent.get(key)


def _position(parent: list[Any], key: str, failed: str, *, is_whole: bool = False) -> int:
    """Return the index of an item; with `is_whole`, `failed` is the complete error message if it does not exist."""
    try:
        return _index(key, len(parent), failed)
    except RefusedPatch:
        if is_whole:
            raise RefusedPatch(failed) from None
        raise


def _index(key: str, length: int, failed: str, prefix: str = "") -> int:
    if not _INDEX.fullmatch(key):
        raise RefusedPatch(f'{failed}: {prefix}strconv.Atoi: parsing "{key}": invalid syntax')
    index = parse_int64(key)
    if index is None:
        raise RefusedPatch(f'{failed}: {prefix}strconv.Atoi: parsing "{key}": value out of range')
    if not -length <= index < length:
        raise RefusedPatch(f"{failed}: Unable to access invalid index: {index}: invalid index referenced")
    return index % length
