"""The conversion strategy Webhook: objects are converted by a webhook that their definition names
(`k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.conversion import NoConversion
from sampan.api.types.apiextensions_v1 import WebhookConversion
from sampan.apiserver.customresources.metrics import (
    CALL_FAILURE,
    INVALID_OBJECT,
    MALFORMED_RESPONSE,
    PARTIAL_RESPONSE,
    CustomResourceMetrics,
)
from sampan.apiserver.customresources.objects.stored_versions import Value
from sampan.apiserver.webhooks.client import WebhookClients, WebhookFailed
from sampan.storage.backend import ConversionFailed

_KIND, _GROUP = "ConversionReview", "apiextensions.k8s.io"
_SUPPORTED = ("v1", "v1beta1")
_TIMEOUT_S = 30.0


class ReviewedConversion:
    """Converts the objects of one definition by sending ConversionReviews to its webhook."""

    needs_request = True

    def __init__(
        self, *, definition: str, webhook: WebhookConversion, clients: WebhookClients, metrics: CustomResourceMetrics
    ) -> None:
        """`definition` is the name of the CustomResourceDefinition, for the metrics."""
        self._definition, self._metrics = definition, metrics
        self._config, self._clients = webhook.clientConfig, clients
        versions = webhook.conversionReviewVersions or ()
        self._review_version = next((version for version in versions if version in _SUPPORTED), "")
        self._loop = asyncio.get_running_loop()

    def convert_now(self, value: Value, api_version: str) -> Value:
        """Return the object in that version; this waits for the webhook and must be called from a worker thread."""
        if value["apiVersion"] == api_version:
            return value
        if _has_running_loop():
            raise NoConversion(f"a webhook cannot convert to {api_version} here")
        (converted,) = asyncio.run_coroutine_threadsafe(self.convert([value], api_version), self._loop).result()
        return converted

    async def convert(self, values: Sequence[Value], api_version: str) -> Sequence[Value]:
        pending = [value for value in values if value["apiVersion"] != api_version]
        if not pending:
            return values
        subject, start, failure_type = _subject(pending[0]), time.perf_counter(), CALL_FAILURE
        try:
            results = iter(await self._review(pending, api_version))
            failure_type = ""
        except WebhookFailed as error:
            raise ConversionFailed(f"conversion webhook for {subject} failed: {error}") from error
        except InvalidResponse as error:
            failure_type = error.failure_type
            why = f"failed: {error}" if failure_type == MALFORMED_RESPONSE else str(error)
            raise ConversionFailed(f"conversion webhook for {subject} {why}") from None
        finally:
            versions = _version_of(pending[0]["apiVersion"]), _version_of(api_version)
            seconds = time.perf_counter() - start
            self._metrics.record_conversion(self._definition, *versions, failure_type=failure_type, seconds=seconds)
        return [value if value["apiVersion"] == api_version else next(results) for value in values]

    async def _review(self, values: Sequence[Value], api_version: str) -> Sequence[Value]:
        if self._config is None or not self._review_version:
            raise WebhookFailed("no version of ConversionReview that this server supports is declared")
        uid, review_version = str(uuid.uuid4()), f"{_GROUP}/{self._review_version}"
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": values}
        review = {"kind": _KIND, "apiVersion": review_version, "request": request, "response": None}
        body = await self._clients.call(self._config, msgspec.json.encode(review), timeout_s=_TIMEOUT_S)
        return read_conversion_review(body, values, uid=uid, api_version=api_version, review_version=review_version)


class InvalidResponse(Exception):
    """The webhook returned something that is no conversion of the objects."""

    def __init__(self, message: str, *, failure_type: str = INVALID_OBJECT) -> None:
        super().__init__(message)
        self.failure_type = failure_type


def _malformed_response_error(message: str) -> InvalidResponse:
    return InvalidResponse(message, failure_type=MALFORMED_RESPONSE)


def _version_of(api_version: str) -> str:
    return api_version.rpartition("/")[2]


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _subject(value: Value) -> str:
    return f"{value['apiVersion']}, Kind={value['kind']}"


def read_conversion_review(
    body: bytes, originals: Sequence[Value], *, uid: str, api_version: str, review_version: str
) -> list[Value]:
    """Return the converted objects in the response of a webhook. Raise WebhookFailed if it refuses to convert them, and
    InvalidResponse if the response is not a conversion of the originals."""
    converted = _parse_converted_objects(body, uid, review_version)
    if len(converted) != len(originals):
        raise InvalidResponse(
            f"returned {len(converted)} objects, expected {len(originals)}", failure_type=PARTIAL_RESPONSE
        )
    return [_restore_metadata(*pair, api_version) for pair in zip(originals, converted, strict=True)]


def _parse_converted_objects(body: bytes, uid: str, review_version: str) -> list[Any]:
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
    except JSON_ERRORS as error:
        raise _malformed_response_error(str(error)) from None
    if (review.get("apiVersion"), review.get("kind")) != (review_version, _KIND):
        actual = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
        raise _malformed_response_error(f"expected webhook response of {review_version}, Kind={_KIND}, got {actual}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _malformed_response_error("no response provided")
    if response.get("uid") != uid:
        raise _malformed_response_error(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if not isinstance(result, dict):
        raise _malformed_response_error("response.result is not an object")
    if result.get("status") != "Success":
        message = result.get("message") or f"response.result.status was '{result.get('status', '')}'"
        raise WebhookFailed(str(message))
    objects = response.get("convertedObjects") or []
    if not isinstance(objects, list):
        raise _malformed_response_error("response.convertedObjects is not a list")
    return objects


def _restore_metadata(original: Value, converted: Any, api_version: str) -> Value:
    """Return a converted object with the metadata of the original: a webhook may only change labels and annotations."""
    if not isinstance(converted, dict) or converted.get("apiVersion") != api_version:
        received = converted.get("apiVersion") if isinstance(converted, dict) else None
        why = f"invalid groupVersion (expected {api_version}, received {received})"
        raise InvalidResponse(f"returned invalid converted object: {why}")
    meta, before = converted.get("metadata") or {}, original["metadata"]
    if not isinstance(meta, dict):
        raise InvalidResponse("returned invalid converted object: its metadata is not an object")
    for field, actual, expected in (
        ("kind", converted.get("kind"), original["kind"]),
        *((name, meta.get(name, ""), before.get(name, "")) for name in ("name", "namespace", "uid")),
    ):
        if actual != expected:
            why = f"{field} of the converted object must not change: expected {expected}, received {actual}"
            raise InvalidResponse(f"returned invalid converted object: {why}")
    metadata_fields = {key: value for key, value in before.items() if key not in ("labels", "annotations")}
    changed = {key: _texts(meta[key], key) for key in ("labels", "annotations") if meta.get(key)}
    return {**converted, "metadata": {**metadata_fields, **changed}}


def _texts(value: Any, field: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise InvalidResponse(f"returned invalid metadata.{field}: it is not a map of strings")
    return value
