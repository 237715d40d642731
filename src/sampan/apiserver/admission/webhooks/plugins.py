"""MutatingAdmissionWebhook: webhooks that may change or reject an object, called one after the other; and
ValidatingAdmissionWebhook: webhooks that may reject a request, called concurrently.

If a mutating webhook changes the object, the chain runs the mutating plugins again; then those webhooks are called
again that ask for it (`reinvocationPolicy: IfNeeded`) and were called before the last change.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.feature_gates import FeatureGates
from sampan.api.resources.resource import Resource
from sampan.api.unstructured import Unstructured
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics
from sampan.apiserver.admission.framework.predicates import is_exempt, is_review
from sampan.apiserver.admission.framework.static_manifests import StaticManifests
from sampan.apiserver.admission.webhooks.caller import WebhookCaller, WebhookInvocation, failure_error
from sampan.apiserver.admission.webhooks.configurations import WebhookConfigurations
from sampan.apiserver.admission.webhooks.review import WebhookResponse
from sampan.apiserver.webhooks.client import WebhookClients, WebhookFailed
from sampan.machinery import errors
from sampan.machinery.patch import PatchError
from sampan.machinery.patch.json_patch import apply_json_patch, check_json_patch

log = logging.getLogger(__name__)

_ANNOTATION = "webhook.admission.k8s.io/round_{round}_index_{index}"


class MutatingAdmissionWebhook:
    name = "MutatingAdmissionWebhook"

    def __init__(
        self,
        *,
        clients: WebhookClients | None,
        metrics: AdmissionMetrics,
        feature_gates: FeatureGates,
        manifests: StaticManifests | None = None,
    ) -> None:
        self._clients, self._metrics = clients, metrics
        self._excludes_reviews = feature_gates.is_enabled("ExcludeAdmissionWebhookVirtualResources")
        self._configurations = WebhookConfigurations("MutatingWebhookConfiguration", manifests)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if is_exempt(resource):
            return self._configurations.has_manifests
        return not (self._excludes_reviews and is_review(resource))

    async def admit(self, attributes: AdmissionAttributes) -> None:
        hooks = await self._configurations.hooks(attributes)
        if not hooks:
            return
        caller = WebhookCaller(attributes, type="admit", clients=self._clients, metrics=self._metrics)
        reinvocation = attributes.reinvocation
        round_number = int(reinvocation.is_repeated)
        if (
            reinvocation.is_repeated
            and reinvocation.called
            and reinvocation.last_output != _encode_object(attributes.obj)
        ):
            reinvocation.require_called()
        for index, hook in enumerate(hooks):
            invocation = await caller.find_invocation(hook)
            if invocation is None:
                continue
            if reinvocation.is_repeated and hook.identity not in reinvocation.required:
                continue
            is_changed = await _call(caller, attributes, invocation, round_number, index)
            if is_changed:
                reinvocation.require_called()
                reinvocation.is_required = True
            if hook.is_reinvoked:
                reinvocation.called.add(hook.identity)
        if reinvocation.called:  # otherwise no later run compares the object with it
            reinvocation.last_output = _encode_object(attributes.obj)


def _encode_object(obj: Any) -> bytes:
    """Return the object as JSON, to notice whether plugins have changed it; empty if there is none."""
    if obj is None:
        return b""
    return msgspec.json.encode(obj.to_value() if isinstance(obj, Unstructured) else obj)


async def _call(
    caller: WebhookCaller, attributes: AdmissionAttributes, invocation: WebhookInvocation, round_number: int, index: int
) -> bool:
    """Call a webhook and apply its patch. Return whether the object has changed."""
    webhook = invocation.webhook
    annotation = _ANNOTATION.format(round=round_number, index=index)
    try:
        response = await caller.review(invocation)
        is_changed = await _apply(caller, attributes, invocation, response)
    except WebhookFailed as failure:
        if not webhook.ignores_failures:
            raise failure_error(webhook, failure) from None
        log.warning("failed calling webhook %s, failing open: %s", webhook.name, failure)
        attributes.annotate(f"failed-open.mutation.{annotation}", webhook.name)
        return False
    note = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": is_changed}
    attributes.annotate(f"mutation.{annotation}", msgspec.json.encode(note).decode())
    return is_changed


async def _apply(
    caller: WebhookCaller, attributes: AdmissionAttributes, invocation: WebhookInvocation, response: WebhookResponse
) -> bool:
    if not response.patch:
        return False
    name = invocation.webhook.name
    if attributes.obj is None:
        text = f'admission webhook "{name}" attempted to modify the object, which is not supported for this operation'
        raise errors.internal_error(text)
    before = (await caller.view(invocation)).obj
    try:
        operations = check_json_patch(json.read_any(response.patch))
        after = apply_json_patch(before, operations)
    except (PatchError, json.DecodeError, ValueError, TypeError) as error:
        raise errors.internal_error(str(error)) from None
    if after == before:
        return False
    try:
        await caller.replace_object(invocation, after)
    except (json.DecodeError, ValueError) as error:
        raise errors.internal_error(str(error)) from None
    return True


_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"


class ValidatingAdmissionWebhook:
    name = "ValidatingAdmissionWebhook"

    def __init__(
        self,
        *,
        clients: WebhookClients | None,
        metrics: AdmissionMetrics,
        feature_gates: FeatureGates,
        manifests: StaticManifests | None = None,
    ) -> None:
        self._clients, self._metrics = clients, metrics
        self._excludes_reviews = feature_gates.is_enabled("ExcludeAdmissionWebhookVirtualResources")
        self._configurations = WebhookConfigurations("ValidatingWebhookConfiguration", manifests)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if is_exempt(resource):
            return self._configurations.has_manifests
        return not (self._excludes_reviews and is_review(resource))

    async def validate(self, attributes: AdmissionAttributes) -> None:
        hooks = await self._configurations.hooks(attributes)
        if not hooks:
            return
        caller = WebhookCaller(attributes, type="validating", clients=self._clients, metrics=self._metrics)
        invocations = [invocation for hook in hooks if (invocation := await caller.find_invocation(hook)) is not None]
        for invocation in invocations:  # one after the other, so that objects are converted once for all webhooks
            await caller.view(invocation)
        results = await asyncio.gather(
            *(_review_error(caller, attributes, invocation, index) for index, invocation in enumerate(invocations))
        )
        for error in results:
            if error is not None:
                raise error


async def _review_error(
    caller: WebhookCaller, attributes: AdmissionAttributes, invocation: WebhookInvocation, index: int
) -> errors.ApiError | None:
    """Return the error with which a webhook rejects the request or fails, or None."""
    webhook = invocation.webhook
    try:
        await caller.review(invocation)
    except errors.ApiError as error:
        return error
    except WebhookFailed as failure:
        if not webhook.ignores_failures:
            return failure_error(webhook, failure)
        log.warning("failed calling webhook %s, failing open: %s", webhook.name, failure)
        attributes.annotate(_FAILED_OPEN.format(index=index), webhook.name)
    return None
