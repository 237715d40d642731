"""Server-side apply requests: decoding the applied configuration and merging it into the live object."""

from __future__ import annotations

from typing import Any

from sampan.api.codec import json as json_codec
from sampan.api.codec.careful import kind as kind_of_value
from sampan.api.go_compat import conversion_errors
from sampan.api.resources.resource import Resource
from sampan.api.values import json_numbers
from sampan.apiserver.fieldmanager import FieldOwnership
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.stored_object import StoredObject
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.options import WriteOptions
from sampan.apiserver.response.responses import VersionConverter
from sampan.machinery import errors

_CONVERTING = "error converting YAML to JSON"
_INTO = "Go value of type map[string]interface {}"


class ApplyRequest:
    """The applied configuration of one request. `decode` reports a body that is not YAML, before the object is looked
    up; any other fault of the body is reported when it is first applied, after a missing object."""

    def __init__(
        self,
        *,
        call: Call,
        resource: Resource,
        options: WriteOptions,
        codec: ResourceCodec,
        ownership: FieldOwnership,
        versions: VersionConverter,
        now: str,
    ) -> None:
        self._call, self._resource, self._options, self._codec = call, resource, options, codec
        self._ownership, self._managers = ownership, ownership.get_manager(resource, call.subresource)
        self._versions, self._now = versions, now
        self._value: dict[str, Any] | None = None
        self._repeated: list[str] = []

    def decode(self) -> None:
        """Decode the body unless it may be JSON. Raise BadRequest if it is not YAML."""
        if not _may_be_json(self._call.body):
            self._value, self._repeated = _read_yaml(self._call.body)

    def apply_to(self, present: StoredObject) -> Any:
        """Return the live object after the apply, in the version of the request path, with its managed fields."""
        live = self._ownership.complete(self._resource, self._versions.to_requested_value(self._resource, present.raw))
        value, entries = self._apply(live, present.obj.metadata.managedFields)
        obj = self._object(live if value is None else value)
        obj.metadata.managedFields = entries
        return obj

    def create_object(self) -> Any:
        """Return the object that the apply creates when there is no live object."""
        value, entries = self._apply(None, [])
        obj = self._object(value or {})
        obj.metadata.managedFields = entries
        if obj.metadata.uid:
            why = (
                f"uid mismatch: the provided object specified uid {obj.metadata.uid}, and no existing object was found"
            )
            raise errors.conflict(self._resource.plural, self._call.name, why, group=self._resource.group)
        return obj

    def _apply(self, live: dict[str, Any] | None, managed_entries: Any) -> Any:
        if self._value is None:
            self._value, self._repeated = read(self._call.body)
        result = self._managers.apply(
            live,
            self._value,
            managed_entries,
            manager=self._options.field_manager,
            force=bool(self._options.force),
            now=self._now,
        )
        report_duplicates(self._call, self._repeated, self._options.field_validation)
        return result

    def _object(self, value: dict[str, Any]) -> Any:
        try:
            return self._codec.from_value(value)[0]
        except json_codec.DecodeError as error:
            why = conversion_errors.conversion_error(value, self._codec.schema, str(error))
            title = self._managers.describe_object(self._value or {})
            text = f"failed to convert new object ({title}) to proper version: {why}"
            raise errors.unexpected_error(text) from None


def read(body: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the decoded body and the messages for its duplicate keys. JSON is valid YAML, but is decoded faster as
    JSON."""
    if _may_be_json(body):
        try:
            value, repeated = json_codec.decode_any(body)
        except json_codec.BodyTooLargeError as error:
            raise errors.request_entity_too_large(str(error)) from None
        except json_codec.DecodeError:
            return _read_yaml(body)
        if not repeated:
            return json_numbers.normalize_decoded(body, value), []
    return _read_yaml(body)


def _may_be_json(body: bytes) -> bool:
    return body.lstrip()[:1] == b"{"


def report_duplicates(call: Call, repeated: list[str], validation: str) -> None:
    """Report duplicate keys according to the field validation; called after the apply itself has succeeded."""
    if not repeated or validation == "Ignore":
        return
    if validation == "Strict":
        from sampan.api.codec import yaml

        raise errors.bad_request(f"error strict decoding patch: {_CONVERTING}: {yaml.strict_message(repeated)}")
    for text in repeated:
        call.warn(text)


def _read_yaml(body: bytes) -> tuple[dict[str, Any], list[str]]:
    from sampan.api.codec import yaml

    try:
        value, repeated = yaml.decode(body)
    except yaml.YamlTooLargeError as error:
        raise errors.request_entity_too_large(str(error)) from None
    except yaml.YamlError as yaml_error:
        fault = f"error decoding patch: {_CONVERTING}" if _may_be_json(body) else "error encoding patch"
        raise errors.bad_request(f"{fault}: {yaml_error}") from None
    if not isinstance(value, dict | None):
        why = f"json: cannot unmarshal {kind_of_value(value)} into {_INTO}"
        raise errors.bad_request(f"error decoding patch: error unmarshaling JSON: while decoding JSON: {why}")
    return value or {}, repeated
