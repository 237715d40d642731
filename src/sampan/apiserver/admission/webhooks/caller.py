"""One webhook and one request: whether the webhook applies, the call, and the API error of a rejection or failure."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.admission.framework.expressions import RequestExpressions, conditions_match, join_failures
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics, AdmissionType, ErrorType
from sampan.apiserver.admission.framework.predicates import find_matching_version
from sampan.apiserver.admission.framework.versioned_object import VersionedObjects
from sampan.apiserver.admission.webhooks.configurations import CompiledWebhook
from sampan.apiserver.admission.webhooks.review import (
    InvalidReview,
    WebhookResponse,
    complete_request,
    request_variables,
    response_of,
    review_of,
    review_version,
)
from sampan.apiserver.webhooks.client import WebhookClients, WebhookFailed
from sampan.machinery import errors
from sampan.machinery.telemetry.flight_recorder import WEBHOOK, current_parts

log = logging.getLogger(__name__)

_SAFE_FOR_DRY_RUN = ("None", "NoneOnDryRun")
_UNAVAILABLE = 503
"""The code that metrics have for a webhook without a valid response."""


class RequestView:
    """A request with its objects in the version that a webhook sees."""

    def __init__(
        self, objects: VersionedObjects, request: dict[str, Any], *, obj: bytes | None, old: bytes | None
    ) -> None:
        self.objects, self.request = objects, request
        self.encoded_obj, self.encoded_old = obj, old

    @cached_property
    def obj(self) -> dict[str, Any] | None:
        """The object as a JSON value, which must not be changed. It is decoded only if an expression or a patch needs
        it."""
        return _decode_optional(self.encoded_obj)

    @cached_property
    def old(self) -> dict[str, Any] | None:
        return _decode_optional(self.encoded_old)


def _decode_optional(encoded: bytes | None) -> dict[str, Any] | None:
    value: dict[str, Any] | None = json.read_any(encoded) if encoded is not None else None
    return value


@dataclass(frozen=True, slots=True)
class WebhookInvocation:
    """A webhook that applies to a request, and the version in which it sees the objects."""

    webhook: CompiledWebhook
    resource: Resource


class WebhookCaller:
    """Calls webhooks about one request."""

    def __init__(
        self,
        attributes: AdmissionAttributes,
        *,
        type: AdmissionType,
        clients: WebhookClients | None,
        metrics: AdmissionMetrics,
    ) -> None:
        self._attributes, self._type, self._clients, self._metrics = attributes, type, clients, metrics
        self._expressions = RequestExpressions(attributes)
        self._views: dict[GroupVersionKind, RequestView] = {}
        """The views that webhooks of the request have used, until the object changes."""

    async def view(self, invocation: WebhookInvocation) -> RequestView:
        """Return the request in the version that the webhook sees. The values must not be changed."""
        resource = invocation.resource
        view = self._views.get(resource.gvk)
        if view is None:
            attributes = self._attributes
            objects = VersionedObjects(attributes.registry, resource)
            view = self._views[resource.gvk] = RequestView(
                objects,
                request_variables(attributes, resource, objects),
                obj=await objects.encode(attributes.obj),
                old=await objects.encode(attributes.old),
            )
        return view

    async def replace_object(self, invocation: WebhookInvocation, value: dict[str, Any]) -> None:
        """Change the object of the request to a value in the version that a webhook sees. Raise DecodeError."""
        view = await self.view(invocation)
        await view.objects.replace(self._attributes.obj, value)
        self._views.clear()

    async def find_invocation(self, webhook: CompiledWebhook) -> WebhookInvocation | None:
        """Return the invocation of a webhook, or None if the webhook does not apply to the request. Raise an ApiError
        if the namespace does not exist, or if a match condition fails and the webhook does not ignore failures."""
        attributes, hook = self._attributes, webhook.hook
        resource = find_matching_version(hook.rules, hook.matchPolicy, attributes)
        if resource is None or not await webhook.selectors.match(attributes):
            return None
        invocation = WebhookInvocation(webhook, resource)
        if webhook.conditions and not await self._conditions_match(invocation):
            return None
        return invocation

    async def _conditions_match(self, invocation: WebhookInvocation) -> bool:
        attributes, webhook = self._attributes, invocation.webhook
        view = await self.view(invocation)

        def variables() -> dict[str, Any]:
            return {
                "object": view.obj,
                "oldObject": view.old,
                "namespaceObject": None,  # declared for match conditions, but never set
                "request": complete_request(view.request),
                **self._expressions.authorizer_variables(),
            }

        start = time.perf_counter()
        is_match, failures = await conditions_match(self._expressions, webhook.conditions, variables)
        self._metrics.record_match_conditions(
            webhook.name,
            "webhook",
            self._type,
            attributes.operation,
            seconds=time.perf_counter() - start,
            is_match=is_match,
            error_count=len(failures),
        )
        if not failures:
            return is_match
        if webhook.ignores_failures:
            log.warning("match conditions of webhook %s failed and are ignored: %s", webhook.name, failures[0])
            return False
        raise attributes.forbidden(join_failures(failures))

    async def review(self, invocation: WebhookInvocation) -> WebhookResponse:
        """Return the response of a webhook that admits the request. Raise an ApiError if it rejects the request or does
        not support its dry run, `WebhookFailed` if there is no valid response."""
        webhook, start = invocation.webhook, time.perf_counter()
        try:
            response = await self._call(invocation)
        except WebhookFailed:
            if webhook.ignores_failures:
                self._metrics.record_webhook_fail_open(webhook.name, self._type)
            else:
                self._record_rejection(webhook, "calling_webhook_error", _UNAVAILABLE)
            self._record_call(webhook, start, _UNAVAILABLE, is_rejected=not webhook.ignores_failures)
            raise
        except errors.ApiError:
            self._record_rejection(webhook, "apiserver_internal_error", 0)
            self._record_call(webhook, start, 0, is_rejected=True)
            raise
        if not response.is_allowed:
            rejection = rejection_error(webhook, response)
            self._record_rejection(webhook, "no_error", rejection.code)
            self._record_call(webhook, start, rejection.code, is_rejected=True)
            raise rejection
        self._record_call(webhook, start, 200, is_rejected=False)
        return response

    def _record_call(self, webhook: CompiledWebhook, start: float, code: int, *, is_rejected: bool) -> None:
        operation, end = self._attributes.operation, time.perf_counter()
        seconds = end - start
        self._attributes.exclude_time(seconds)
        if (parts := current_parts()) is not None:
            parts.add(f"{WEBHOOK}{webhook.name}", start, end)
        self._metrics.record_webhook_call(
            webhook.name, self._type, operation, seconds=seconds, code=code, is_rejected=is_rejected
        )

    def _record_rejection(self, webhook: CompiledWebhook, error_type: ErrorType, code: int) -> None:
        operation = self._attributes.operation
        self._metrics.record_webhook_rejection(webhook.name, self._type, operation, error_type=error_type, code=code)

    async def _call(self, invocation: WebhookInvocation) -> WebhookResponse:
        attributes, hook = self._attributes, invocation.webhook.hook
        if attributes.dry_run and hook.sideEffects not in _SAFE_FOR_DRY_RUN:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = review_version(hook.admissionReviewVersions or ())
        if version is None or self._clients is None:
            raise WebhookFailed("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
        view = await self.view(invocation)
        uid, body = review_of(version, view.request, obj=view.encoded_obj, old=view.encoded_old)
        try:
            body = await self._clients.call(hook.clientConfig, body, timeout_s=invocation.webhook.timeout_s)
        except WebhookFailed as error:
            raise WebhookFailed(f"failed to call webhook: {error}") from None
        try:
            response = response_of(body, version=version, uid=uid, is_mutating=self._type == "admit")
        except InvalidReview as error:
            raise WebhookFailed(f"received invalid webhook response: {error}") from None
        for text in response.warnings:
            attributes.warn(text)
        for key, value in response.audit_annotations.items():
            attributes.annotate(f"{hook.name}/{key}", value)
        return response


def failure_error(webhook: CompiledWebhook, failure: Exception) -> errors.ApiError:
    """Return the error of a request that a failing webhook prevents."""
    return errors.internal_error(f'failed calling webhook "{webhook.name}": {failure}')


def rejection_error(webhook: CompiledWebhook, response: WebhookResponse) -> errors.ApiError:
    """Return the error of a request that a webhook rejects."""
    types = {"message": str, "reason": str, "code": int, "details": dict, "metadata": dict}
    status: dict[str, Any] = {
        name: value
        for name, value in response.status.items()
        if name in types and isinstance(value, types[name]) and not isinstance(value, bool)
    }
    denied = f'admission webhook "{webhook.name}" denied the request'
    if text := status.get("message") or status.get("reason"):
        status["message"] = f"{denied}: {text}"
    else:
        status["message"] = f"{denied} without explanation"
    code = status.get("code")
    if code is None or not 400 <= code <= 599:
        status["code"] = 400
    status |= {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    status.setdefault("metadata", {})
    return errors.from_status(status)
