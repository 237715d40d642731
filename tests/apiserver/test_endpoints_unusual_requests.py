"""Unusual requests, with the responses of a real v1.36.4 server."""

from typing import Any

import msgspec
import pytest

from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.response.responses import translate_storage_error
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.storage.cacher.errors import TooLargeVersion
from sampan.storage.memory import MemoryBackend
from tests.apiserver.in_process_server import InProcessClient, Reply, in_process_client, run

NS = "/api/v1/namespaces/default"
MAP, POD, DEPLOYMENT = f"{NS}/configmaps/c", f"{NS}/pods/p", "/apis/apps/v1/namespaces/default/deployments/d"
MERGE, STRATEGIC, JSON_PATCH = (
    f"application/{name}+json" for name in ("merge-patch", "strategic-merge-patch", "json-patch")
)
OVERFLOW = "99999999999999999999"
OUT_OF_RANGE = f'strconv.ParseInt: parsing "{OVERFLOW}": value out of range'
NO_NAME = "the name of the object (c based on URL) was undeterminable: name must be provided"
OTHER_NAME = "the name of the object (x) does not match the name on the URL (d)"
NOT_FOUND = "the server could not find the requested resource"
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
SCHEME = 'no kind "Foo" is registered for version "meta.k8s.io/v1"'
UID_MISMATCH = "the UID in the precondition ({}) does not match the UID in record"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
EVICTION = {"kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}


async def _create_objects(client: InProcessClient) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
    await client.create(f"{NS}/configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    await client.create(f"{NS}/pods", {"metadata": {"name": "p"}, "spec": TEMPLATE["spec"]})
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "replicas": 2}
    await client.create(DEPLOYMENT.rpartition("/")[0], {"metadata": {"name": "d"}, "spec": spec})


def _send(method: str, target: str, body: Any = None, media: str = "application/json", **headers: str) -> Reply:
    async def send() -> Reply:
        async with in_process_client() as client:
            await _create_objects(client)
            raw = b"" if body is None else msgspec.json.encode(body)
            return await client.send(method, target, raw, **{"content-type": media}, **headers)

    return run(send())


@pytest.mark.parametrize(
    ("method", "target", "body", "media", "code", "message"),
    [
        ("GET", f"{NS}/configmaps?limit={OVERFLOW}", None, "", 400, OUT_OF_RANGE),
        ("GET", f"{NS}/configmaps?limit=", None, "", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("GET", f"{NS}/configmaps?limit=+1", None, "", 400, 'strconv.ParseInt: parsing " 1": invalid syntax'),
        ("GET", f"{NS}/configmaps?timeoutSeconds={OVERFLOW}", None, "", 400, OUT_OF_RANGE),
        ("GET", f"{POD}/log?tailLines={OVERFLOW}", None, "", 400, OUT_OF_RANGE),
        ("DELETE", f"{MAP}?gracePeriodSeconds={OVERFLOW}", None, "", 400, OUT_OF_RANGE),
        ("GET", f"{MAP}?export=true", None, "", 400, "the export parameter, deprecated since v1.14"),
        ("DELETE", f"{MAP}?uid=x", None, "", 409, UID_MISMATCH.format("x")),
        ("DELETE", f"{MAP}?propagationPolicy=", None, "", 422, 'propagationPolicy: Unsupported value: ""'),
        (
            "POST",
            f"{REVIEWS}?fieldValidation=Strict",
            {"apiVersion": "authorization.k8s.io/v1beta1", "kind": "SubjectAccessReview", "foo": 1},
            "application/json",
            400,
            'SubjectAccessReview in version "v1beta1" cannot be handled as a SubjectAccessReview: strict decoding',
        ),
        (
            "POST",
            f"{POD}/eviction?fieldValidation=Strict",
            {**EVICTION, "apiVersion": "policy/v1beta1", "foo": 1},
            "application/json",
            400,
            'Eviction in version "v1beta1" cannot be handled as a Eviction: strict decoding error',
        ),
        (
            "PATCH",
            f"{DEPLOYMENT}/scale",
            {"kind": "Deployment"},
            MERGE,
            422,
            '\\"managedFields\\":[{',
        ),
        ("DELETE", MAP, {"preconditions": {"uid": ""}}, "", 409, UID_MISMATCH.format("")),
        (
            "DELETE",
            MAP,
            {"preconditions": {"resourceVersion": ""}},
            "",
            409,
            "the ResourceVersion in the precondition ()",
        ),
        ("DELETE", MAP, {"kind": "Foo"}, "", 400, SCHEME),
        ("PATCH", MAP, {"data": {"x": "1"}}, "application/Merge-Patch+json", 415, "415: Unsupported Media Type"),
        ("PATCH", MAP, {"apiVersion": None}, MERGE, 400, NO_NAME),
        ("PATCH", MAP, {"apiVersion": ""}, MERGE, 400, NO_NAME),
        ("PATCH", MAP, [{"op": "remove", "path": "/apiVersion"}], JSON_PATCH, 400, NO_NAME),
        ("PATCH", MAP, {"kind": 1}, MERGE, 422, "couldn't get version/kind; json parse error: json: cannot unmarshal"),
        ("PATCH", f"{DEPLOYMENT}/scale", {"metadata": {"name": "x"}}, MERGE, 400, OTHER_NAME),
        ("PATCH", f"{DEPLOYMENT}/scale", {"metadata": {"name": "x"}}, STRATEGIC, 400, OTHER_NAME),
        ("GET", f"{POD}/log/x", None, "", 404, NOT_FOUND),
        ("POST", f"{POD}/log/x", {}, "", 404, NOT_FOUND),
        ("GET", f"{REVIEWS}/x", None, "", 404, NOT_FOUND),
        ("POST", f"{NS}/bindings", {"target": {"name": "n"}}, "", 400, "Name parameter required."),
    ],
)
def test_unusual_requests_are_rejected_with_the_messages_of_kube_apiserver(
    method: str, target: str, body: Any, media: str, code: int, message: str
) -> None:
    reply = _send(method, target, body, media or "application/json")
    assert reply.code == code, reply.body
    assert message in reply.json["message"]


@pytest.mark.parametrize(
    ("method", "target", "body", "media", "code"),
    [
        ("PATCH", MAP, {"kind": "Foo", "data": {"x": "1"}}, STRATEGIC, 200),
        ("PATCH", MAP, {"kind": "Pod", "apiVersion": "bar/v1"}, STRATEGIC, 200),
        ("PATCH", f"{DEPLOYMENT}/scale", {"kind": "Deployment", "spec": {"replicas": 3}}, STRATEGIC, 200),
        ("PATCH", MAP, {"kind": None}, MERGE, 200),
        ("GET", f"{MAP}?export=false", None, "", 200),
        ("DELETE", MAP, {"preconditions": {}}, "", 200),
        ("POST", f"{POD}/eviction", {"apiVersion": "policy/v1beta1", **EVICTION}, "", 201),
        ("POST", f"{NS}/bindings", {"metadata": {"name": "p", "uid": "x"}, "target": {"name": "n"}}, "", 201),
    ],
)
def test_unusual_requests_are_accepted(method: str, target: str, body: Any, media: str, code: int) -> None:
    reply = _send(method, target, body, media or "application/json")
    assert reply.code == code, reply.body


@pytest.mark.parametrize(("verb", "retry_after_s"), [("list", 1), ("deletecollection", None)])
def test_future_resource_version_error_has_retry_after_except_for_deletecollection(
    verb: str, retry_after_s: int | None
) -> None:
    call = InProcessClient.make_call("GET", MAP, b"", {})
    call.verb = verb
    error = translate_storage_error(TooLargeVersion(5, 1), call)
    assert error is not None
    assert error.status["details"].get("retryAfterSeconds") == retry_after_s


def test_log_of_a_pod_without_a_node_gets_204_without_content_type() -> None:
    reply = _send("GET", f"{POD}/log")
    assert (reply.code, reply.content_type, reply.body) == (204, "", b"")


def test_a_scale_as_a_table() -> None:
    reply = _send("GET", f"{DEPLOYMENT}/scale", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    columns = [(column["name"], column["type"], column["format"]) for column in reply.json["columnDefinitions"]]
    names = ("Name", "Desired", "Available", "Age")
    assert columns == list(zip(names, ("string", "integer", "integer", "string"), ("",) * 4, strict=True))
    assert reply.json["rows"][0]["cells"][:3] == ["d", 2, 0]


def test_patch_error_sorts_only_the_objects_that_the_patch_changes() -> None:
    message = _send("PATCH", MAP, {"data": {"b": 1}}, MERGE).json["message"]
    order = ("apiVersion", "data", "kind", "metadata", "name", "namespace", "uid", "resourceVersion")
    places = [message.index(f'\\"{word}\\":') for word in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        (
            {"fieldSelector": {"requirements": [{"key": "a", "operator": "Foo", "values": ["b"]}]}},
            "fieldSelector ignored",
        ),
        ({"fieldSelector": {"rawSelector": "a=b"}}, ""),
        ({"labelSelector": {"rawSelector": "a in ("}}, "labelSelector ignored"),
        (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Foo"}]}},
            "labelSelector partially ignored",
        ),
    ],
)
def test_invalid_selectors_of_access_reviews_are_evaluation_errors(attributes: dict[str, Any], error: str) -> None:
    spec = {"user": "u", "resourceAttributes": {"resource": "pods", "verb": "list", **attributes}}
    status = run(_review(REVIEWS, {"spec": spec})).json["status"]
    expected = f"spec.resourceAttributes.{error} due to parse error" if error else None
    assert status.get("evaluationError") == expected


def test_rules_review_response_omits_metadata_and_spec() -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    reply = run(_review(path, {"metadata": {"labels": {"a": "b"}}, "spec": {"namespace": "default"}})).json
    assert (reply["metadata"], reply["spec"]) == ({}, {})


async def _review(path: str, body: dict[str, Any]) -> Reply:
    """Send a review to a server with authorizers."""
    clock = RealClock()
    async with (
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=ServerConfig(any_insecure_port=True), backend=backend, clock=clock) as server,
    ):
        return await InProcessClient(server).create(path, body)  # type: ignore[arg-type]
