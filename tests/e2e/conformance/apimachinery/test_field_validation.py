"""Conformance tests of sig-api-machinery for unknown and duplicate fields. The first paragraph of a docstring is the
official test name."""

import pytest

from tests.e2e.conformance.api import Api, ApiError

DEPLOYMENT = """{
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "my-dep", %s "labels": {"app": "nginx"}},
    "spec": {
        %s
        "selector": {"matchLabels": {"app": "nginx"}},
        "template": {
            "metadata": {"labels": {"app": "nginx"}},
            "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}
        }
    }
}"""


def refusal(api: Api, meta: str = "", spec: str = "") -> str:
    """Return the error for a Deployment with additional text in its metadata or spec; without that text it is
    created."""
    deployments = api.for_resource("deployments", "apps/v1")
    strict = {"fieldManager": "field_validation_mgr", "fieldValidation": "Strict"}
    with pytest.raises(ApiError) as refused:
        api.send("POST", deployments.collection_path, (DEPLOYMENT % (meta, spec)).encode(), **strict)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert deployments.names() == []
    api.send("POST", deployments.collection_path, (DEPLOYMENT % ("", "")).encode(), **strict)
    assert deployments.names() == ["my-dep"]
    return str(refused.value)


def test_unknown_and_duplicate_fields(api: Api) -> None:
    """[sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object
    [Conformance]"""
    output = refusal(api, spec='"unknownField": "foo", "replicas": 2, "replicas": 3,')
    assert 'strict decoding error: unknown field "spec.unknownField", duplicate field "spec.replicas"' in output


def test_unknown_metadata_fields(api: Api) -> None:
    """[sig-api-machinery] FieldValidation should detect unknown metadata fields of a typed object [Conformance]"""
    output = refusal(api, meta='"unknownMeta": "foo",')
    assert 'strict decoding error: unknown field "metadata.unknownMeta"' in output
