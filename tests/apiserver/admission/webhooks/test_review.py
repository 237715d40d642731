"""Responses of admission webhooks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sampan.api.types.admissionregistration_v1 import ValidatingWebhook, ValidatingWebhookConfiguration
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.admission.webhooks.caller import rejection_error
from sampan.apiserver.admission.webhooks.configurations import compile_webhooks
from sampan.apiserver.admission.webhooks.review import WebhookResponse, response_of


def read(**response: Any) -> WebhookResponse:
    whole = {"uid": "u", "allowed": False, **response}
    body = msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": whole})
    return response_of(body, version="v1", uid="u", is_mutating=True)


@pytest.mark.parametrize("value", [5, "text", {"a": 1}, [[1], 5, "kept"], True], ids=repr)
def test_response_fields_of_wrong_type_are_ignored(value: Any) -> None:
    response = read(warnings=value, auditAnnotations=value, status=value)
    assert response.warnings == (["kept"] if isinstance(value, list) else [])
    assert all(isinstance(text, str) for text in response.audit_annotations.values())
    assert isinstance(response.status, dict)


@pytest.mark.parametrize("value", [5, "text", {"retryAfterSeconds": "x"}, [[1]], True, None], ids=repr)
@pytest.mark.parametrize("field", ["code", "message", "reason", "details", "metadata", "status"])
def test_rejection_status_with_fields_of_wrong_type_becomes_valid_error(field: str, value: Any) -> None:
    hook = ValidatingWebhook(name="hook.example.com")
    (webhook,) = compile_webhooks(ValidatingWebhookConfiguration(metadata=ObjectMeta(name="a"), webhooks=[hook]))
    error = rejection_error(webhook, read(status={field: value}))
    assert 400 <= error.code <= 599
    assert "denied the request" in error.message
    assert error.retry_after_s == 0
    msgspec.json.encode(error.status)
