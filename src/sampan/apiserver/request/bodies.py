"""Request bodies: decoding from any accepted media type, and checks that the object agrees with the request path.

The error messages are those of kube-apiserver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api import limits
from sampan.api.codec import json as json_codec
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.resources.retired import is_known, is_same_kind
from sampan.api.types.meta_v1 import DeleteOptions, OwnerReference
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import JSON, OBJECT_MEDIA_TYPES, YAML
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.registry.codec import ResourceCodec

_SCHEME = "pkg/runtime/scheme.go:111"


def is_large(call: Call) -> bool:
    """Whether decoding the body takes so long that it must not happen on the event loop."""
    size = len(call.body)
    if size <= limits.INLINE_YAML_BYTES:
        return False
    return size > limits.INLINE_BODY_BYTES or is_yaml(call)


def is_yaml(call: Call) -> bool:
    return "yaml" in call.headers.get("Content-Type", "").lower()


def media_type(call: Call) -> str:
    """Return the media type of the body; an empty Content-Type means JSON. Raise UnsupportedMediaType for any other
    type."""
    declared = call.headers.get("Content-Type", "")
    media, _, parameters = declared.partition(";")
    media = media.strip().lower() or JSON
    if media not in OBJECT_MEDIA_TYPES or not _are_valid_parameters(f";{parameters}"):
        raise errors.unsupported_media_type(OBJECT_MEDIA_TYPES)
    return media


_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_PARAMETER = re.compile(rf'\s*+;\s*+({_TOKEN})\s*+=\s*+({_TOKEN}|"(?:[^"\\]|\\.)*+")')


def _are_valid_parameters(text: str) -> bool:
    """Whether the parameters of a media type are `name=value` with different names, as Go's package mime demands."""
    parameters: dict[str, str] = {}
    end = 0
    while (match := _PARAMETER.match(text, end)) is not None:
        name, value = match[1].lower(), match[2]
        if parameters.setdefault(name, value) != value:
            return False
        end = match.end()
    return text[end:].strip() in ("", ";")


def read_object(call: Call, codec: ResourceCodec, validation: str) -> Any:
    """Return the object in the body, which must be of the codec's kind. Unknown and duplicate fields are rejected,
    reported as warnings or ignored, according to `validation` (Strict, Warn, Ignore)."""
    body, repeated = _as_json(call, media_type(call), codec.kind.kind)
    expected = codec.kind
    try:
        obj, strict = codec.parse(body)
    except json_codec.BodyTooLargeError as error:
        raise errors.request_entity_too_large(str(error)) from None
    except json_codec.DecodeError as decode_error:
        kind = _parse_kind(body, expected)
        raise (_refusal(kind, expected) or errors.bad_request(f"{_subject(kind, expected)}: {decode_error}")) from None
    if codec.type is None:
        _check_custom_kind(call, obj, expected)
    elif obj.kind != expected.kind or obj.apiVersion != expected.api_version:
        kind = _parse_kind(body, expected)
        refusal = _refusal(kind, expected)
        if (repeated or strict) and is_same_kind(kind, expected):
            # Another version of the kind is decoded before it is refused.
            _report_strict_errors(call, repeated, strict, validation, _subject(kind, expected))
            repeated, strict = [], []
        if refusal:
            raise refusal
        obj.kind, obj.apiVersion = expected.kind, expected.api_version
    if repeated or strict:
        _report_strict_errors(call, repeated, strict, validation, _subject(expected, expected))
    return obj


def _check_custom_kind(call: Call, obj: Any, expected: GroupVersionKind) -> None:
    """Raise kube-apiserver's error for a custom object of another kind or version. Both are required."""
    if not obj.kind:
        text = call.body.decode("utf-8", "replace")
        raise unrecognized_object_error(expected.kind, f"Object 'Kind' is missing in '{text}'", call.body)
    if obj.apiVersion != expected.api_version:
        raise errors.bad_request(_version_mismatch(obj.apiVersion, expected.api_version))
    if obj.kind != expected.kind:
        error = FieldError.invalid("kind", obj.kind, f"must be {expected.kind}")
        raise errors.invalid(obj.kind, obj.metadata.name, [error], group=expected.group)


def _version_mismatch(actual: str, expected: str) -> str:
    return f"the API version in the data ({actual}) does not match the expected API version ({expected})"


_OLD_EVICTION = GroupVersionKind(group="policy", version="v1beta1", kind="Eviction")
"""A version that the subresource still accepts, although its group version is not served."""


def _refusal(kind: GroupVersionKind, expected_kind: GroupVersionKind) -> errors.ApiError | None:
    """Return the error for a body whose kind is not the expected one, or None if the kind is acceptable."""
    if kind == _OLD_EVICTION and expected_kind.kind == kind.kind:
        return None
    if kind != expected_kind and is_same_kind(kind, expected_kind):
        return errors.bad_request(_version_mismatch(kind.api_version, expected_kind.api_version))
    why = _mismatch(kind, expected_kind)
    return errors.bad_request(f"{_subject(kind, expected_kind)}: {why}") if why else None


def kind_mismatch(api_version: str, kind: str, expected_kind: GroupVersionKind) -> str | None:
    """Return why an object with this apiVersion and kind is not of the expected kind; None if it is, or if both are
    empty."""
    if (api_version, kind) == (expected_kind.api_version, expected_kind.kind):
        return None
    return _mismatch(_complete_kind(api_version, kind, expected_kind), expected_kind)


def read_delete_options(call: Call) -> dict[str, Any]:
    """Return the DeleteOptions in the body as a JSON value. The body may declare any group and version."""
    media = media_type(call)
    try:
        body = call.body if media == JSON else _as_json(call, media, "DeleteOptions")[0]
        json_codec.check_size(body)
        api_version, kind = json_codec.read_kind(body)
    except json_codec.BodyTooLargeError as error:
        raise errors.request_entity_too_large(str(error)) from None
    except json_codec.DecodeError as decode_error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {decode_error}") from None
    if kind not in ("", "DeleteOptions"):
        version, scheme = gotext.quote(api_version or "meta.k8s.io/v1"), gotext.quote(_SCHEME)
        raise errors.bad_request(f"no kind {gotext.quote(kind)} is registered for version {version} in scheme {scheme}")
    try:
        options, _ = json_codec.decode(body, DeleteOptions)
    except json_codec.DecodeError as decode_error:
        raise errors.bad_request(str(decode_error)) from None
    value: dict[str, Any] = json_codec.to_value(options)
    return value


def _report_strict_errors(call: Call, repeated: list[str], strict: list[str], validation: str, subject: str) -> None:
    """Report decoding errors according to the field validation. `repeated` are duplicate YAML keys, which are combined
    into one error; `strict` are the strict decoding errors of any media type."""
    if validation == "Strict":
        messages = [_yaml().strict_message(repeated), *strict] if repeated else strict
        raise errors.bad_request(f"{subject}: strict decoding error: {', '.join(messages)}")
    if validation == "Warn":
        for message in (*repeated, *strict):
            call.warn(message)


def _subject(kind: GroupVersionKind, expected_kind: GroupVersionKind) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {expected_kind.kind}'


def _as_json(call: Call, media: str, expected_kind: str) -> tuple[bytes, list[str]]:
    """Return the body as JSON, with the duplicate keys that can only be detected in the original YAML."""
    if media == JSON:
        return call.body, []
    if media == YAML:
        yaml_codec = _yaml()
        try:
            value, messages = yaml_codec.decode(call.body)
        except yaml_codec.YamlTooLargeError as error:
            raise errors.request_entity_too_large(str(error)) from None
        except yaml_codec.YamlError as codec_error:
            raise unrecognized_object_error(expected_kind, str(codec_error), call.body) from None
        return json_codec.encode(value), messages
    from sampan.api.codec import protobuf as protobuf_codec

    try:
        return json_codec.encode(protobuf_codec.decode(call.body)), []
    except protobuf_codec.ProtobufError as codec_error:
        raise unrecognized_object_error(expected_kind, str(codec_error), call.body) from None


def _yaml() -> Any:
    """Import the YAML codec lazily, when the first YAML body arrives."""
    from sampan.api.codec import yaml

    return yaml


def _parse_kind(body: bytes, default: GroupVersionKind) -> GroupVersionKind:
    try:
        api_version, kind = json_codec.read_kind(body)
    except json_codec.DecodeError as error:
        raise unrecognized_object_error(
            default.kind, f"couldn't get version/kind; json parse error: {error}", body
        ) from None
    if api_version.count("/") > 1:
        raise unrecognized_object_error(default.kind, f"unexpected GroupVersion string: {api_version}", body)
    return _complete_kind(api_version, kind, default)


def _complete_kind(api_version: str, kind: str, default: GroupVersionKind) -> GroupVersionKind:
    if not api_version:
        group, version = default.group, default.version
    else:
        group, _, version = api_version.rpartition("/")
    return GroupVersionKind(group=group, version=version, kind=kind or default.kind)


def unrecognized_object_error(expected_kind: str, why: str, body: bytes) -> errors.ApiError:
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {expected_kind}): {why} ({_abbreviate_body(body)})"
    )


def _abbreviate_body(body: bytes) -> str:
    """Return the start of the body for an error message: as text if it looks like JSON, in hexadecimal otherwise."""
    if not body:
        return "<empty>"
    if body.lstrip()[:1] == b"{":
        text = body.decode("utf-8", "replace")
        return text if len(text) <= 30 else text[:30] + " ..."
    return body.hex() if len(body) <= 30 else body[:30].hex() + " ..."


def _mismatch(kind: GroupVersionKind, expected_kind: GroupVersionKind) -> str | None:
    if kind == expected_kind:
        return None
    if not is_known(kind):
        version = gotext.quote(kind.api_version)
        return (
            f"no kind {gotext.quote(kind.kind)} is registered for version {version} in scheme {gotext.quote(_SCHEME)}"
        )
    internal = expected_kind.group.partition(".")[0] or "core"
    return f"converting ({kind.version}.{kind.kind}) to ({internal}.{expected_kind.kind}): unknown conversion"


_TWICE = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def match_namespace(call: Call, obj: Any) -> None:
    """Set a missing namespace from the path, and clear that of a cluster-scoped object. Raise BadRequest if they
    differ."""
    meta = obj.metadata
    if call.resource is None or not call.resource.namespaced:
        meta.namespace = ""
    elif not meta.namespace:
        meta.namespace = call.namespace
    elif meta.namespace != call.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def match_name(call: Call, obj: Any) -> None:
    name = obj.metadata.name
    if not name:
        text = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(text)
    if name != call.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def drop_repeated_owners(call: Call, obj: Any, *, is_after_admission: bool = False) -> None:
    owners: list[OwnerReference] = obj.metadata.ownerReferences
    if len(owners) < 2:
        return
    encoded_owners: set[bytes] = set()
    remaining_owners: list[OwnerReference] = []
    repeated: list[OwnerReference] = []
    for owner in owners:
        text = msgspec.json.encode(owner)
        (repeated if text in encoded_owners else remaining_owners).append(owner)
        encoded_owners.add(text)
    if repeated:
        when = " after mutating admission happens" if is_after_admission else ""
        call.warn(_TWICE.format(when, ", ".join(owner.uid for owner in repeated)))
        obj.metadata.ownerReferences = remaining_owners
