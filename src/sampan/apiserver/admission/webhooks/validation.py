"""ValidatingAdmissionWebhook: webhooks that may reject a request, called concurrently."""

from __future__ import annotations

import asyncio
import logging

from sampan.api.resource import Resource
from sampan.apiserver.admission.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.metrics import AdmissionMetrics
from sampan.apiserver.admission.predicates import is_exempt
from sampan.apiserver.admission.webhooks.caller import Invocation, WebhookCaller, failure_error
from sampan.apiserver.admission.webhooks.configurations import WebhookConfigurations
from sampan.apiserver.webhooks.client import WebhookFailed
from sampan.machinery import errors

log = logging.getLogger(__name__)

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"


class ValidatingAdmissionWebhook:
    name = "ValidatingAdmissionWebhook"

    def __init__(self, *, metrics: AdmissionMetrics) -> None:
        self._metrics = metrics
        self._configurations = WebhookConfigurations("ValidatingWebhookConfiguration")

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return not is_exempt(resource)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        hooks = await self._configurations.hooks(attributes.registry)
        if not hooks:
            return
        caller = WebhookCaller(attributes, type="validating", metrics=self._metrics)
        invocations = [invocation for hook in hooks if (invocation := await caller.invocation(hook)) is not None]
        for invocation in invocations:  # one after the other, so that objects are converted once for all webhooks
            await caller.view(invocation)
        results = await asyncio.gather(
            *(_review_error(caller, attributes, invocation, index) for index, invocation in enumerate(invocations))
        )
        for error in results:
            if error is not None:
                raise error


async def _review_error(
    caller: WebhookCaller, attributes: AdmissionAttributes, invocation: Invocation, index: int
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
