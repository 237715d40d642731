"""Request bodies that cost the server far more than their sender, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from http import client
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from sampan.api import limits
from sampan.testing import Cluster
from tests.storage import etcd_server

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEW = (
    b"apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\n"
    b"spec: {resourceAttributes: {verb: get, resource: pods}}\n"
)
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
MAPS = "/api/v1/namespaces/default/configmaps"
JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Reply(NamedTuple):
    code: int
    value: Any
    warnings: list[str]

    @property
    def failure(self) -> tuple[int, str | None, str]:
        return self.code, self.value.get("reason"), self.value["message"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(insecure=True, controllers=()) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["memory", "sqlite", "etcd"])
def any_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster on each of the storage backends."""
    with ExitStack() as running:
        store = request.param
        if store == "etcd":
            if etcd_server.find("etcd") is None:
                pytest.skip(etcd_server.NO_ETCD)
            store = running.enter_context(etcd_server.running_member(tmp_path_factory.mktemp("etcd"))).client_url
        yield running.enter_context(Cluster(insecure=True, controllers=(), store=store))


@pytest.fixture(autouse=True)
def _many_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's HTTP client accepts 100 headers, and there may be more warnings."""
    monkeypatch.setattr(client, "_MAXHEADERS", 100_000)


def ask(cluster: Cluster, method: str, target: str, body: bytes, media: str = JSON) -> Reply:
    connection = HTTPConnection("127.0.0.1", urlsplit(cluster.insecure_url).port or 0, timeout=120)
    try:
        connection.request(method, target, body, {"Content-Type": media})
        got = connection.getresponse()
        return Reply(got.status, msgspec.json.decode(got.read()), got.headers.get_all("Warning") or [])
    finally:
        connection.close()


def cpu_s(cluster: Cluster, body: bytes) -> float:
    """Return the CPU time of the whole process for one request, the best of three."""
    times = []
    for _ in range(3):
        before = time.process_time()
        ask(cluster, "POST", REVIEWS, body, YAML)
        times.append(time.process_time() - before)
    return min(times)


def template(value: str, name: str = "t") -> dict[str, Any]:
    container = {"name": "c", "image": "x", "env": [{"name": "E", "value": value}]}
    return {"metadata": {"name": name}, "template": {"spec": {"containers": [container]}}}


TOO_LARGE = (500, None, "etcdserver: request is too large")


# -- repeated keys ---------------------------------------------------------------------------------------------------


def test_60000_repeated_yaml_keys_do_not_become_60000_warnings(cluster: Cluster) -> None:
    reply = ask(cluster, "POST", REVIEWS, REVIEW + b"a: 1\n" * 60_000, YAML)
    assert reply.code == 201
    assert reply.warnings[0] == '299 - "line 5: key \\"a\\" already set in map"'
    assert len(reply.warnings) <= limits.STRICT_ERRORS + 1
    assert sum(map(len, reply.warnings)) < 2 * limits.WARNINGS_LENGTH


def test_the_cost_of_repeated_yaml_keys_is_linear(cluster: Cluster) -> None:
    few, many = (cpu_s(cluster, REVIEW + b"a: 1\n" * count) for count in (10_000, 40_000))
    assert many < 7 * few


def test_strict_validation_names_100_repeated_yaml_keys_at_most(cluster: Cluster) -> None:
    body = REVIEW + b"a: 1\n" * 1000
    reply = ask(cluster, "POST", f"{REVIEWS}?fieldValidation=Strict", body, YAML)
    assert reply.code == 400
    assert reply.value["message"].count("already set in map") == limits.STRICT_ERRORS


def test_unknown_fields_with_long_names_are_truncated_as_warnings(cluster: Cluster) -> None:
    fields = b",".join(b'"%b%d":1' % (b"x" * 1000, number) for number in range(200))
    reply = ask(cluster, "POST", MAPS, b'{"metadata":{"name":"long"},%b}' % fields)
    assert reply.code == 201
    texts = [text.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for text in reply.warnings]
    assert max(map(len, texts)) == limits.WARNING_LENGTH
    assert sum(map(len, texts)) <= limits.WARNINGS_LENGTH + limits.WARNING_LENGTH


# -- expansion -------------------------------------------------------------------------------------------------------


def test_aliases_of_a_long_string_do_not_expand_beyond_the_body_limit(cluster: Cluster) -> None:
    body = b"%bx: &x %b\ny: [%b]\n" % (REVIEW, b"x" * 1_000_000, b", ".join([b"*x"] * 300))
    too_large = (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    assert ask(cluster, "POST", REVIEWS, body, YAML).failure == too_large
    assert ask(cluster, "PATCH", f"{MAPS}/a?fieldManager=m", body, APPLY).failure == too_large


def test_merge_keys_do_not_expand_beyond_the_body_limit(cluster: Cluster) -> None:
    merged = b"".join(b"m%d: {<<: *x}\n" % number for number in range(100))
    body = b"%bx: &x {%b}\n%b" % (REVIEW, b", ".join(b"k%d: v" % number for number in range(10_000)), merged)
    assert ask(cluster, "POST", REVIEWS, body, YAML).code in (400, 413)


def test_nested_yaml_aliases_are_rejected(cluster: Cluster) -> None:
    body = REVIEW + b"a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for letter in b"bcdefghi":
        body += b"%c: &%c [%b]\n" % (letter, letter, b", ".join([b"*%c" % (letter - 1)] * 10))
    reply = ask(cluster, "POST", REVIEWS, body, YAML)
    assert reply.code in (400, 413)


@pytest.mark.parametrize("media", [JSON, YAML])
def test_body_with_a_million_empty_objects_is_rejected(cluster: Cluster, media: str) -> None:
    body = b'{"metadata":{"name":"x","ownerReferences":[%b]}}' % b",".join([b"{}"] * 1_000_000)
    reply = ask(cluster, "POST", MAPS, body, media)
    assert (reply.code, reply.value["reason"]) == (413, "RequestEntityTooLarge")


# -- stored objects --------------------------------------------------------------------------------------------------


def test_object_above_the_etcd_request_limit_is_not_stored(any_store: Cluster) -> None:
    reply = ask(any_store, "POST", TEMPLATES, msgspec.json.encode(template("x" * 1_600_000)))
    assert reply.failure == TOO_LARGE
    assert ask(any_store, "GET", f"{TEMPLATES}/t", b"").code == 404


def test_update_beyond_the_etcd_request_limit_is_rejected(any_store: Cluster) -> None:
    assert ask(any_store, "POST", TEMPLATES, msgspec.json.encode(template("x" * 1_400_000, "grows"))).code == 201
    larger = msgspec.json.encode(template("x" * 1_600_000, "grows"))
    assert ask(any_store, "PATCH", f"{TEMPLATES}/grows", larger, MERGE).failure == TOO_LARGE
    assert ask(any_store, "PUT", f"{TEMPLATES}/grows", larger).failure == TOO_LARGE
    apply = msgspec.json.encode({"apiVersion": "v1", "kind": "PodTemplate", **template("x" * 1_600_000, "grows")})
    assert ask(any_store, "PATCH", f"{TEMPLATES}/grows?fieldManager=m&force=1", apply, APPLY).failure == TOO_LARGE
    assert ask(any_store, "DELETE", f"{TEMPLATES}/grows", b"").code == 200


def test_object_that_yaml_aliases_expand_above_the_limit_is_not_stored(any_store: Cluster) -> None:
    lines = b"\n".join(b"        - {name: E%d, value: *x}" % number for number in range(40))
    body = b"metadata:\n  name: a\n  annotations: {x: &x %b}\ntemplate:\n  spec:\n    containers:\n" % (b"x" * 60_000)
    body += b"      - name: c\n        image: x\n        env:\n%b\n" % lines
    assert ask(any_store, "POST", TEMPLATES, body, YAML).failure == TOO_LARGE


def test_config_map_with_a_megabyte_of_newlines_is_stored(cluster: Cluster) -> None:
    """The JSON has two megabytes because of escapes, but the size that the real server limits is one megabyte."""
    value = {"metadata": {"name": "lines"}, "data": {"x": "\n" * ((1 << 20) - 1)}}
    assert ask(cluster, "POST", MAPS, msgspec.json.encode(value)).code == 201
    assert ask(cluster, "GET", f"{MAPS}/lines", b"").value["data"] == value["data"]


def test_config_map_near_the_limit_is_stored_or_reported_as_too_large(any_store: Cluster) -> None:
    """etcd counts escapes as well, since it stores the JSON."""
    value = {"metadata": {"name": "lines"}, "data": {"x": "\n" * 1_000_000}}
    reply = ask(any_store, "POST", MAPS, msgspec.json.encode(value))
    assert reply.code == 201 or reply.failure == TOO_LARGE
