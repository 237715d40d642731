"""AdmissionReview: the request that a webhook receives, and the checks of its response. Pure."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.admission.framework.versioned_object import VersionedObjects
from sampan.apiserver.request.call import UserInfo

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")
_KIND = "AdmissionReview"
_JSON_PATCH = "JSONPatch"


class InvalidReview(ValueError):
    """A webhook returned a response that is no valid AdmissionReview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookResponse:
    is_allowed: bool
    status: Mapping[str, Any] = field(default_factory=dict)
    """The Status with the reason of a rejection."""
    patch: bytes = b""
    """The JSON patch of a mutating webhook; empty if it changes nothing."""
    audit_annotations: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def review_version(versions: Sequence[str]) -> str | None:
    """Return the first version of a webhook's list that this server supports."""
    return next((version for version in versions if version in VERSIONS), None)


def request_variables(attributes: AdmissionAttributes, resource: Resource, objects: VersionedObjects) -> dict[str, Any]:
    """Return an AdmissionRequest without uid and objects, as expressions and webhooks see it. `resource` is the version
    that matched the rules."""
    kind = objects.kind_of(attributes.obj if attributes.obj is not None else attributes.old)
    request_kind = kind if kind != resource.gvk else attributes.resource.gvk
    return {
        "kind": _kind(kind),
        "resource": _resource(resource),
        "subResource": attributes.subresource,
        "requestKind": _kind(request_kind),
        "requestResource": _resource(attributes.resource),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": _user(attributes.user),
        "dryRun": attributes.dry_run,
        "options": attributes.options(),
    }


def complete_request(request: dict[str, Any]) -> dict[str, Any]:
    """Return the variable `request` of expressions, which may select fields that are empty."""
    user = {"uid": "", "extra": {}, **request["userInfo"]}
    return {**request, "userInfo": user, "options": request["options"] or {}}


def review_of(version: str, request: Mapping[str, Any], *, obj: bytes | None, old: bytes | None) -> tuple[str, bytes]:
    """Return the uid and the body of a review. The objects are JSON."""
    uid = str(uuid.uuid4())
    content = {key: value for key, value in request.items() if value not in ("", None)}
    review = {
        "kind": _KIND,
        "apiVersion": f"{GROUP}/{version}",
        "request": {"uid": uid, **content, "object": _to_raw(obj), "oldObject": _to_raw(old)},
    }
    return uid, msgspec.json.encode(review)


def _to_raw(encoded: bytes | None) -> msgspec.Raw | None:
    return msgspec.Raw(encoded) if encoded is not None else None


def response_of(body: bytes, *, version: str, uid: str, is_mutating: bool) -> WebhookResponse:
    """Return the checked response of a webhook. Raise `InvalidReview` with the message of kube-apiserver."""
    review = _parse_review(body)
    kind = GroupVersionKind(group=GROUP, version=version, kind=_KIND)
    if version == "v1" and (review.get("apiVersion"), review.get("kind")) != (kind.api_version, kind.kind):
        actual = f"{review.get('apiVersion') or ''}, Kind={review.get('kind') or ''}"
        raise InvalidReview(f"expected webhook response of {kind.api_version}, Kind={_KIND}, got {actual}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidReview("webhook response was absent")
    if version == "v1" and response.get("uid") != uid:
        raise InvalidReview(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    status = response.get("status")
    return WebhookResponse(
        is_allowed=response.get("allowed") is True,
        status=status if isinstance(status, dict) else {},
        patch=_patch(response, version, is_mutating=is_mutating),
        audit_annotations=_texts(response.get("auditAnnotations")),
        warnings=[text for text in _list(response.get("warnings")) if isinstance(text, str)],
    )


def _parse_review(body: bytes) -> dict[str, Any]:
    try:
        review = json.read_any(body)
    except (json.DecodeError, RecursionError) as error:
        raise InvalidReview(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(review, dict):
        raise InvalidReview("couldn't get version/kind; json parse error: not an object")
    return review


def _patch(response: Mapping[str, Any], version: str, *, is_mutating: bool) -> bytes:
    encoded, kind = response.get("patch") or "", response.get("patchType")
    if not is_mutating:
        if version == "v1" and encoded:
            raise InvalidReview("validating webhook may not return response.patch")
        if version == "v1" and kind is not None:
            raise InvalidReview("validating webhook may not return response.patchType")
        return b""
    if version == "v1":
        if encoded and kind is None:
            raise InvalidReview("webhook returned response.patch but not response.patchType")
        if kind is not None and not encoded:
            raise InvalidReview("webhook returned response.patchType but not response.patch")
    if kind not in (None, _JSON_PATCH):
        raise InvalidReview(f'webhook returned invalid response.patchType of "{kind}"')
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidReview("illegal base64 data in response.patch") from None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(user: UserInfo) -> dict[str, Any]:
    value: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        value["uid"] = user.uid
    if user.extra:
        value["extra"] = {key: list(values) for key, values in user.extra.items()}
    return value
