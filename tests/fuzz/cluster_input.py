"""Input from servers that the API server calls or proxies to: web pages, certificates, webhooks, aggregated APIs."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.api.types.meta_v1 import APIResourceList
from sampan.apiserver.admission.webhooks.review import InvalidReview, response_of
from sampan.apiserver.aggregation.discovery_documents import InvalidDiscovery, resource_list, version_discovery
from sampan.apiserver.aggregation.openapi_conversion import to_v3
from sampan.apiserver.aggregation.openapi_documents import (
    InvalidOpenApi,
    extract_part,
    merge_documents,
    read_part,
    v3_hash,
)
from sampan.apiserver.customresources.objects.conversion_webhook import InvalidResponse, read_conversion_review
from sampan.apiserver.proxy.response_rewriter import LinkRewriter, rewrite_body_links
from sampan.apiserver.registry import certificate_rules
from sampan.apiserver.webhooks.client import WebhookFailed
from sampan.machinery.pki.pem import count_markers, read_blocks

# -- proxied web pages -----------------------------------------------------------------------------------------------

_REWRITER = LinkRewriter(prefix="/api/v1/namespaces/n/pods/p/proxy", host="10.0.0.1:80", asked_host="127.0.0.1:6443")
PAGES = (
    b"<html><!-- a --><head><script>x = '<a href=\"/\">'</script></head><a href=\"/b\">c</a><img src='/d' alt=e>"
    b'<a href=/f?g=h#i><form action="http://10.0.0.1:80/j"></form></html>',
)


def rewrite_page(data: bytes) -> None:
    for encoding in ("", "gzip", "deflate"):
        rewrite_body_links(_REWRITER, data, encoding, 1 << 20)


# -- certificates ----------------------------------------------------------------------------------------------------

PEMS = (
    b"-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n",
    b"text\n-----BEGIN CERTIFICATE-----\r\nA: b\r\n\r\nMIIB\r\n-----END CERTIFICATE-----\r\n",
    b"-----BEGIN A----------BEGIN B-----\nYQ==\n-----END B-----",
)


def read_pem(data: bytes) -> None:
    for block in read_blocks(data):
        assert next(iter(read_blocks(block.encode()))).content == block.content
    count_markers(data)
    certificate_rules.find_request_error(data)
    certificate_rules.find_certificate_error(data)
    certificate_rules.find_trust_anchor_errors(data)


# -- webhooks --------------------------------------------------------------------------------------------------------

REVIEW_ERRORS = (InvalidReview,)
ADMISSION_RESPONSES = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"patchType":'
    b'"JSONPatch","patch":"W10=","warnings":["w"],"auditAnnotations":{"a":"b"}}}',
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":false,"status":'
    b'{"code":403,"message":"no","reason":"Forbidden","details":{"causes":[]}}}}',
)


def read_admission_response(data: bytes) -> None:
    for version in ("v1", "v1beta1"):
        response = response_of(data, version=version, uid="u", is_mutating=True)
        assert all(isinstance(text, str) for text in response.warnings)


CONVERSION_ERRORS = (InvalidResponse, WebhookFailed)
_OBJECT: dict[str, Any] = {
    "apiVersion": "g/v1",
    "kind": "K",
    "metadata": {"name": "a", "uid": "u", "labels": {"l": "m"}},
}
_REVIEW = "apiextensions.k8s.io/v1"
CONVERSION_RESPONSES = (
    msgspec.json.encode(
        {
            "apiVersion": _REVIEW,
            "kind": "ConversionReview",
            "response": {
                "uid": "u",
                "result": {"status": "Success"},
                "convertedObjects": [{**_OBJECT, "apiVersion": "g/v2", "spec": {}}],
            },
        }
    ),
)


def read_conversion_response(data: bytes) -> None:
    (converted,) = read_conversion_review(data, [_OBJECT], uid="u", api_version="g/v2", review_version=_REVIEW)
    assert converted["metadata"]["name"] == "a"


# -- aggregated API servers ------------------------------------------------------------------------------------------

DOCUMENT_ERRORS = (InvalidDiscovery, InvalidOpenApi)
DOCUMENTS = (
    b'd{"kind":"APIResourceList","groupVersion":"g/v1","resources":[{"name":"ks","singularName":"k","namespaced":true,'
    b'"kind":"K","verbs":["get"],"shortNames":["s"]},{"name":"ks/status","kind":"K","namespaced":true,"verbs":["get"]}]}',
    b'i{"paths":{"apis/g/v1":{"serverRelativeURL":"/openapi/v3/apis/g/v1?hash=AB12"}}}',
    b'o{"swagger":"2.0","info":{"title":"t","version":"v1"},"paths":{"/apis/g/v1/ks":{"parameters":[{"$ref":'
    b'"#/parameters/p"}],"get":{"produces":["application/json"],"responses":{"200":{"description":"OK","schema":'
    b'{"$ref":"#/definitions/K"}}}},"post":{"parameters":[{"in":"body","name":"body","schema":{"$ref":'
    b'"#/definitions/K"}}],"responses":{}}}},"definitions":{"K":{"type":"object","properties":{"a":{"type":"array",'
    b'"items":{"$ref":"#/definitions/L"}}}},"L":{"type":"string"}},"parameters":{"p":{"in":"query","name":"q","type":'
    b'"string"}}}',
)


def read_aggregated_document(data: bytes) -> None:
    """Read a discovery document, an index of OpenAPI v3 or an OpenAPI v2 document; the first byte says which."""
    kind, body = data[:1], data[1:]
    if kind == b"d":
        resources: APIResourceList = resource_list(body)
        version_discovery("v1", resources.resources or (), is_fresh=True)
    elif kind == b"i":
        v3_hash(body, "apis/g/v1")
    elif part := extract_part(body, "g", "v1"):
        to_v3(part)
        merge_documents(read_part(part), [part])
