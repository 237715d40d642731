"""The content of an audit log line, in the form of audit.k8s.io/v1."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.codec import json as json_codec
from sampan.apiserver.request.call import UserInfo

_TRUNCATED = "audit.k8s.io/truncated"


class ObjectReference(msgspec.Struct, omit_defaults=True, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    apiGroup: str = ""
    apiVersion: str = ""
    resourceVersion: str = ""
    subresource: str = ""


class AuditEvent(msgspec.Struct, omit_defaults=True, kw_only=True):
    kind: str
    apiVersion: str
    level: str
    auditID: str
    stage: str
    requestURI: str
    verb: str
    user: dict[str, Any]
    impersonatedUser: dict[str, Any] | None = None
    sourceIPs: list[str] = []
    userAgent: str = ""
    objectRef: ObjectReference | None = None
    responseStatus: dict[str, Any] | None = None
    requestObject: Any = None
    responseObject: Any = None
    requestReceivedTimestamp: str
    stageTimestamp: str
    annotations: dict[str, str] = {}


class AuditBody(msgspec.Struct, frozen=True):
    """The encoded object of a request or response."""

    data: bytes
    media: str = "application/json"


class AuditEntry(msgspec.Struct, frozen=True):
    """An event that waits to be written. Its bodies are still encoded, so that decoding them does not delay the
    request."""

    event: AuditEvent
    request: AuditBody | None = None
    response: AuditBody | None = None
    omits_managed_fields: bool = False

    @property
    def size(self) -> int:
        return 1024 + sum(len(body.data) for body in (self.request, self.response) if body is not None)


def user_info(user: UserInfo) -> dict[str, Any]:
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


class LineTooLargeError(ValueError):
    """An event does not fit on a line even without its bodies."""


def line(entry: AuditEntry) -> bytes:
    """Return one line of the log. A body that cannot be decoded is omitted.

    A line has at most `limits.AUDIT_LINE_BYTES`. If it would be longer, both bodies are omitted and an annotation says
    so, as with kube-apiserver's --audit-log-truncate-enabled. Raise LineTooLargeError if that is not enough.
    """
    event, omits = entry.event, entry.omits_managed_fields
    try:
        request, response = _value(entry.request, omits), _value(entry.response, omits)
    except _TooLargeError:
        return _encode_truncated(event)
    data = msgspec.json.encode(msgspec.structs.replace(event, requestObject=request, responseObject=response))
    return data + b"\n" if len(data) < limits.AUDIT_LINE_BYTES else _encode_truncated(event)


def _encode_truncated(event: AuditEvent) -> bytes:
    annotations = {**event.annotations, _TRUNCATED: "true"}
    data = msgspec.json.encode(msgspec.structs.replace(event, annotations=annotations))
    if len(data) >= limits.AUDIT_LINE_BYTES:
        raise LineTooLargeError(f"the event has {len(data)} bytes, more than the limit of {limits.AUDIT_LINE_BYTES}")
    return data + b"\n"


class _TooLargeError(Exception):
    """A body is too large for a line."""


def _value(body: AuditBody | None, omits_managed_fields: bool) -> Any:
    if body is None:
        return None
    if len(body.data) > limits.AUDIT_LINE_BYTES:
        raise _TooLargeError
    try:
        value = _read(body)
    except _TooLargeError:
        raise
    except Exception:  # a body can be anything, and auditing must not fail because of it
        return None
    if omits_managed_fields and isinstance(value, dict):
        for obj in (value, *_dicts(value.get("items"))):
            if isinstance(metadata := obj.get("metadata"), dict):
                metadata.pop("managedFields", None)
    return value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read(body: AuditBody) -> Any:
    """Return the value of a body, within the limits of the server's decoders."""
    if "protobuf" in body.media:
        from sampan.api.codec import protobuf

        return protobuf.decode(body.data)
    if "yaml" in body.media:
        from sampan.api.codec import yaml

        try:
            return yaml.decode(body.data).value
        except yaml.YamlTooLargeError as error:
            raise _TooLargeError from error
    try:
        json_codec.check_size(body.data)
    except json_codec.BodyTooLargeError as error:
        raise _TooLargeError from error
    return msgspec.json.decode(body.data)
