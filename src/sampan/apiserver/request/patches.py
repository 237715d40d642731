"""PATCH: the patch types, their application to an object's JSON value, and the errors for invalid patches.

`application/apply-patch+yaml` is not a patch of a value but server-side apply, which is in `server_side_apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sampan.api.codec import json as json_codec
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import conversion_errors, gotext
from sampan.api.values import json_numbers
from sampan.apiserver.fieldmanager import is_reset_in_value
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.request.bodies import kind_mismatch
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.options import WriteOptions, write_options
from sampan.machinery import errors, patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"
_ANY_KIND = (JSON_PATCH, MERGE_PATCH, APPLY_YAML)
_BUILTIN = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_YAML)

Value = dict[str, Any]


def patch_type(call: Call, *, is_custom: bool) -> str:
    declared = call.headers.get("Content-Type", "")
    media, offered = declared.partition(";")[0], _ANY_KIND if is_custom else _BUILTIN
    if media in offered:
        return media
    if is_custom or any(part.partition(";")[0].strip(" ") in offered for part in declared.split(",")):
        raise errors.unsupported_media_type(offered)
    raise errors.generic(415, "415: Unsupported Media Type")


def read(call: Call, codec: ResourceCodec) -> tuple[RequestPatch | None, WriteOptions]:
    """Return the patch in a request and its options; the patch is None for a server-side apply."""
    is_custom = codec.type is None or (call.resource is not None and call.resource.is_custom)
    media = patch_type(call, is_custom=is_custom)
    opts = write_options("PatchOptions", call.query, is_apply=media == APPLY_YAML)
    if media == APPLY_YAML:
        return None, opts
    validation = opts.field_validation
    return RequestPatch(media=media, body=call.body, codec=codec, validation=validation, warn=call.warn), opts


class RequestPatch:
    """The patch of one request. `decode` reports a body that is not JSON, before the object is looked up; any other
    fault of the patch is reported when it is first applied, after a missing object."""

    def __init__(
        self, *, media: str, body: bytes, codec: ResourceCodec, validation: str, warn: Callable[[str], None]
    ) -> None:
        self._media, self._body, self._codec = media, body, codec
        self._validation, self._warn = validation, warn
        self._value: Any = None
        self._repeated: list[str] = []
        self._invalid_value: json_codec.DecodeError | None = None
        self._apply: Callable[[Value], Value] | None = None
        self._strict: list[str] = []
        self.resets_managers = False
        """Whether the object of the last `apply` asks to reset the managed fields."""

    @property
    def may_grow(self) -> bool:
        """Whether the patch may copy values, so that a small one makes an object as large as a body may be."""
        return self._media == JSON_PATCH and (b"copy" in self._body or b"\\u" in self._body)

    def apply(self, current: Value) -> Any:
        """Return the object that results from applying the patch to the current value."""
        try:
            if self._apply is None:
                self._read()
            assert self._apply is not None
            patched = self._apply(current)
        except patch.PatchError as error:
            raise error.as_api_error() from None
        self.resets_managers = is_reset_in_value(patched)
        obj, unknown = self._decode(patched)
        self._report_strict_errors([*self._strict, *unknown], patched)
        return obj

    def decode(self) -> None:
        """Decode the body. Raise BadRequest if it is not JSON."""
        try:
            self._value, self._repeated = json_codec.decode_any(self._body)
        except json_codec.BodyTooLargeError as error:
            raise errors.request_entity_too_large(str(error)) from None
        except json_codec.JsonSyntaxError:
            raise errors.bad_request("invalid JSON patch") from None
        except json_codec.DecodeError as error:
            self._invalid_value = error

    def _read(self) -> None:
        is_strategic, repeated = self._media == STRATEGIC_PATCH, self._repeated
        if self._invalid_value is not None:
            text = str(self._invalid_value)
            raise errors.bad_request(text if is_strategic else f"error decoding patch: {text}")
        if self._codec.type is None:
            self._value = json_numbers.normalize_decoded(self._body, self._value)
        if self._media == JSON_PATCH:
            operations = patch.with_texts(patch.check_json_patch(self._value), self._body)
            self._strict = [*patch.unknown_parts(operations), *(f"json patch {problem}" for problem in repeated)]
            self._apply = lambda current: patch.apply_json_patch(current, operations)
            return
        self._strict = repeated
        if is_strategic:
            directed, schema = patch.check_strategic_patch(self._value), self._codec.schema
            self._apply = lambda current: patch.apply_strategic_patch(current, directed, schema)
        else:
            merged = patch.check_merge_patch(self._value)
            self._apply = lambda current: patch.apply_merge_patch(current, merged)

    def _decode(self, patched: Value) -> tuple[Any, list[str]]:
        if self._media != STRATEGIC_PATCH and self._codec.type is not None and not self._has_version(patched):
            # kube-apiserver takes an object without a version for its internal type, whose fields have no JSON names
            names = sorted(patched.keys() - {"kind", "apiVersion"})
            return self._codec.type(), [f"unknown field {gotext.quote(name)}" for name in names]
        try:
            obj, unknown = self._codec.from_value(patched)
        except json_codec.DecodeError as error:
            is_strategic = self._media == STRATEGIC_PATCH
            why = (
                conversion_errors.conversion_error(patched, self._codec.schema, str(error))
                if is_strategic
                else str(error)
            )
            raise self._invalid(patched, why) from None
        # kube-apiserver gives the result of a strategic merge patch the type of the path, whatever its kind is
        if self._codec.type is None:
            self._check_custom_kind(patched, obj)
        other = kind_mismatch(obj.apiVersion, obj.kind, self._codec.kind)
        if other and self._media != STRATEGIC_PATCH:
            raise self._invalid(patched, other)
        obj.kind, obj.apiVersion = self._codec.kind.kind, self._codec.kind.api_version
        return obj, unknown

    def _check_custom_kind(self, patched: Value, obj: Any) -> None:
        """Raise the error for a custom object of another kind or version, which has that kind in its title."""
        if not obj.kind:
            text = gotext.json_text(patched)
            raise self._invalid(patched, f"Object 'Kind' is missing in '{text}'")
        expected = self._codec.kind
        field_errors = [
            FieldError.invalid(field, value, f"must be {valid}")
            for field, value, valid in (
                ("kind", obj.kind, expected.kind),
                ("apiVersion", obj.apiVersion, expected.api_version),
            )
            if value != valid
        ]
        if field_errors:
            group = obj.apiVersion.rpartition("/")[0]
            raise errors.invalid(obj.kind, obj.metadata.name, field_errors, group=group)

    def _has_version(self, patched: Any) -> bool:
        """Whether the result names an API version. Raise Invalid if it is not an object, or its kind is no text."""
        if isinstance(patched, dict) and all(isinstance(patched.get(name), str) for name in ("kind", "apiVersion")):
            return bool(patched["apiVersion"])
        try:
            return bool(json_codec.read_kind(json_codec.encode(patched))[0])
        except json_codec.DecodeError as error:
            raise self._invalid(patched, f"couldn't get version/kind; json parse error: {error}") from None

    def _report_strict_errors(self, messages: list[str], patched: Value) -> None:
        if not messages or self._validation == "Ignore":
            return
        if self._validation == "Strict":
            raise self._invalid(patched, f"strict decoding error: {', '.join(messages)}")
        for message in messages:
            self._warn(message)

    def _invalid(self, patched: Value, why: str) -> errors.ApiError:
        """Return the error for an invalid result. It shows a strategic patch itself, otherwise the result."""
        is_strategic = self._media == STRATEGIC_PATCH
        shown = gotext.value(self._value) if is_strategic else self._format_result(patched)
        return errors.invalid("", "", [FieldError.invalid("patch", shown, why)])

    def _format_result(self, patched: Any) -> str:
        """Return the result as kube-apiserver prints it: the objects that the patch has touched are sorted by key, the
        others are in the order of the type."""
        if self._codec.type is None:
            return gotext.json_text(patched)
        touched = self._value if self._media == MERGE_PATCH else _build_touched_tree(self._value)
        if isinstance(patched, dict) and isinstance(metadata := patched.get("metadata"), dict):
            patched = {**patched, "metadata": _with_version_after_uid(metadata)}
        return gotext.compact_json(json_codec.encode(_sort_touched(patched, touched))).decode()


def _build_touched_tree(operations: list[dict[str, Any]]) -> Value:
    """Return the tree of the containers that a JSON patch has opened."""
    root: Value = {}
    for operation in operations:
        for pointer in (operation.get("path"), operation.get("from")):
            tree = root
            for key in pointer.split("/")[1:-1] if isinstance(pointer, str) else ():
                tree = tree.setdefault(key.replace("~1", "/").replace("~0", "~"), {})
    return root


def _sort_touched(value: Any, touched: Any) -> Any:
    if not isinstance(touched, dict):
        return value
    if isinstance(value, list):
        return [_sort_touched(item, touched.get(str(index))) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {key: _sort_touched(value[key], touched.get(key)) for key in sorted(value)}


def _with_version_after_uid(metadata: Value) -> Value:
    """Return the metadata of a stored object in the order of its type; Sampan stores the resource version first."""
    if "uid" not in metadata or "resourceVersion" not in metadata:
        return metadata
    ordered: Value = {}
    for key, item in metadata.items():
        if key != "resourceVersion":
            ordered[key] = item
        if key == "uid":
            ordered["resourceVersion"] = metadata["resourceVersion"]
    return ordered
