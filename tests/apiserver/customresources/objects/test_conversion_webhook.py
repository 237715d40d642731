"""Responses of conversion webhooks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sampan.apiserver.customresources.objects.conversion_webhook import InvalidResponse, read_conversion_review
from sampan.apiserver.webhooks.client import WebhookFailed

META = {"name": "a", "uid": "u", "labels": {"l": "m"}}
ORIGINAL: dict[str, Any] = {"apiVersion": "g/v1", "kind": "K", "metadata": META}
CONVERTED = {**ORIGINAL, "apiVersion": "g/v2"}
REVIEW = "apiextensions.k8s.io/v1"


def read(**response: Any) -> list[dict[str, Any]]:
    whole = {"uid": "u", "result": {"status": "Success"}, "convertedObjects": [CONVERTED], **response}
    body = msgspec.json.encode({"apiVersion": REVIEW, "kind": "ConversionReview", "response": whole})
    return read_conversion_review(body, [ORIGINAL], uid="u", api_version="g/v2", review_version=REVIEW)


def test_labels_and_annotations_may_change_and_other_metadata_stays() -> None:
    meta = {"name": "a", "uid": "u", "labels": {"x": "y"}, "annotations": {"z": ""}, "finalizers": ["f"]}
    (converted,) = read(convertedObjects=[{**CONVERTED, "metadata": meta}])
    assert converted["metadata"] == {"name": "a", "uid": "u", "labels": {"x": "y"}, "annotations": {"z": ""}}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({"result": [1]}, "response.result is not an object"),
        ({"result": "Success"}, "response.result is not an object"),
        ({"convertedObjects": 5}, "response.convertedObjects is not a list"),
        ({"convertedObjects": {"a": 1}}, "response.convertedObjects is not a list"),
        ({"convertedObjects": [5]}, "invalid groupVersion"),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        ({"convertedObjects": [{**CONVERTED, "metadata": [1]}]}, "its metadata is not an object"),
        (
            {"convertedObjects": [{**CONVERTED, "metadata": {**META, "uid": "v"}}]},
            "uid of the converted",
        ),
        ({"convertedObjects": [{**CONVERTED, "metadata": {**META, "labels": [1]}}]}, "metadata.labels"),
        (
            {"convertedObjects": [{**CONVERTED, "metadata": {**META, "labels": {"a": 1}}}]},
            "metadata.labels",
        ),
    ],
)
def test_invalid_responses_are_rejected(response: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidResponse, match=message):
        read(**response)


def test_failure_message_that_is_not_a_string_is_reported() -> None:
    with pytest.raises(WebhookFailed, match="a"):
        read(result={"status": "Failure", "message": ["a"]})
