"""What a line of the audit log says, in the form of audit.k8s.io/v1."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.apiserver.call import User


class ObjectReference(msgspec.Struct, omit_defaults=True, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    apiGroup: str = ""
    apiVersion: str = ""
    resourceVersion: str = ""
    subresource: str = ""


class Event(msgspec.Struct, omit_defaults=True, kw_only=True):
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


class Body(msgspec.Struct, frozen=True):
    """An object as it was sent or answered, not made out yet."""

    data: bytes
    media: str = "application/json"


class Entry(msgspec.Struct, frozen=True):
    """An event on its way to the log, its bodies still as they came: making them out is not the call's work."""

    event: Event
    request: Body | None = None
    response: Body | None = None
    omits_managed_fields: bool = False

    @property
    def size(self) -> int:
        return 1024 + sum(len(body.data) for body in (self.request, self.response) if body is not None)


def user_info(user: User) -> dict[str, Any]:
    found: dict[str, Any] = {"username": user.name}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = list(user.groups)
    if user.extra:
        found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return found


def line(entry: Entry) -> bytes:
    """One line, whatever is in the bodies; one that makes no sense is left out."""
    event, omits = entry.event, entry.omits_managed_fields
    event.requestObject = _value(entry.request, omits)
    event.responseObject = _value(entry.response, omits)
    return msgspec.json.encode(event) + b"\n"


def _value(body: Body | None, omits_managed_fields: bool) -> Any:
    if body is None:
        return None
    try:
        value = _read(body)
    except Exception:  # a body can be anything: the log is no place to fail for it
        return None
    if omits_managed_fields and isinstance(value, dict):
        for each in (value, *_dicts(value.get("items"))):
            if isinstance(metadata := each.get("metadata"), dict):
                metadata.pop("managedFields", None)
    return value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _read(body: Body) -> Any:
    if "protobuf" in body.media:
        from sampan.api.codec import protobuf

        return protobuf.decode(body.data)
    if "yaml" in body.media:
        import yaml

        return yaml.load(body.data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return msgspec.json.decode(body.data)


__all__ = ["Body", "Entry", "Event", "ObjectReference", "line", "user_info"]
