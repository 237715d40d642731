"""OpenAPI documents: equal to those of kube-apiserver, complete, and cached by hash."""

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.api.schema.tree import from_openapi
from sampan.api.scheme import builtin_scheme
from sampan.apiserver import descriptions
from sampan.apiserver.nonresource.openapi import handler
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


async def _v3_documents(client: InProcessClient) -> dict[str, Any]:
    index = (await client.get("/openapi/v3")).json["paths"]
    return {name: (await client.get(entry["serverRelativeURL"])).json for name, entry in index.items()}


def _without_descriptions(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _without_descriptions(v) for k, v in node.items() if not (k == "description" and isinstance(v, str))}
    return [_without_descriptions(v) for v in node] if isinstance(node, list) else node


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


def test_v3_schemas_equal_those_of_kube_apiserver(reference_dir: Path) -> None:
    published = json.loads((reference_dir / "openapi-v3-schemas.json").read_text())

    async def check() -> None:
        async with in_process_client() as client:
            names: set[str] = set()
            for name, document in (await _v3_documents(client)).items():
                for schema, definition in document["components"]["schemas"].items():
                    expected = _normalize_schema(published[schema])
                    assert _normalize_schema(_without_descriptions(definition)) == expected, f"{schema} in {name}"
                    names.add(schema)
            assert not set(published) - names

    run(check())


def _normalize_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in a form that can be compared.

    A bare reference equals allOf with only this reference; DeleteOptions and WatchEvent list different kinds in each
    document.
    """
    fields = schema.get("properties", {})
    properties = {name: {"allOf": [field]} if list(field) == ["$ref"] else field for name, field in fields.items()}
    comparable = {**schema, "properties": properties} if fields else dict(schema)
    kinds = comparable.get("x-kubernetes-group-version-kind", [])
    if any(kind["kind"] in ("DeleteOptions", "WatchEvent") for kind in kinds):
        del comparable["x-kubernetes-group-version-kind"]
    return comparable


def test_v3_references_resolve_and_operation_ids_are_unique() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            ids: set[str] = set()
            for name, document in (await _v3_documents(client)).items():
                known = {f"#/components/schemas/{schema}" for schema in document["components"]["schemas"]}
                assert set(_references(document)) <= known, name
                for path, item in document["paths"].items():
                    for method, operation in item.items():
                        if method != "parameters":
                            assert operation["operationId"] not in ids, path
                            ids.add(operation["operationId"])
            assert {"readCoreV1NamespacedPodLog", "patchAppsV1NamespacedDeploymentScale"} <= ids

    run(check())


def test_patch_operation_has_kind_parameters_and_media_types() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            paths = (await client.get("/openapi/v3/apis/apps/v1")).json["paths"]
            patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
            gvk = {"group": "apps", "version": "v1", "kind": "Deployment"}
            assert patch["x-kubernetes-group-version-kind"] == gvk
            assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {p["name"] for p in patch["parameters"]}
            assert "application/apply-patch+yaml" in patch["requestBody"]["content"]

    run(check())


def test_document_requested_by_its_hash_is_immutable() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            index = await client.get("/openapi/v3")
            url = index.json["paths"]["apis/apps/v1"]["serverRelativeURL"]
            first = await client.get(url)
            assert first.headers["Cache-Control"] == "public, immutable"
            assert first.headers["Expires"].endswith(" GMT")
            assert url.endswith(first.headers["ETag"].strip('"'))
            again = await client.get(url, if_none_match=first.headers["ETag"])
            assert (again.code, again.body) == (304, b"")
            other = await client.get(url.partition("?")[0] + "?hash=ABC")
            assert (other.code, other.headers["Location"]) == (301, url)
            packed = await client.get(url, accept_encoding="gzip")
            assert packed.headers["Content-Encoding"] == "gzip"
            assert packed.body == first.body
            unchanged = await client.get("/openapi/v3", if_none_match=index.headers["ETag"])
            assert unchanged.code == 304

    run(check())


def test_unknown_documents_get_404_and_unknown_media_types_get_406() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            for path in ("/openapi/v3/none", "/openapi/v3/", "/openapi/v3/apis/apps/v9"):
                reply = await client.get(path)
                assert (reply.code, reply.body) == (404, b"")
            assert (await client.get("/openapi/v3/api/v1", accept="text/html")).code == 406
            assert (await client.get("/openapi/v2", accept="text/html")).code == 406

    run(check())


def test_v2_definitions_equal_v3_schemas() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            document = (await client.get("/openapi/v2")).json
            known = {f"#/definitions/{name}" for name in document["definitions"]}
            known |= {f"#/parameters/{name}" for name in document["parameters"]}
            assert set(_references(document)) <= known
            published = {
                schema
                for document in (await _v3_documents(client)).values()
                for schema in document["components"]["schemas"]
            }
            assert set(document["definitions"]) == published
            container = document["definitions"]["io.k8s.api.core.v1.Container"]
            ports = container["properties"]["ports"]
            assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
            assert ports["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.ContainerPort"}
            assert document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"

    run(check())


def test_v2_as_protobuf() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            reply = await client.get("/openapi/v2", accept=PROTOBUF)
            assert reply.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            document = (await client.get("/openapi/v2")).json
            fields = _read_fields(reply.body)
            assert fields[1] == [b"2.0"]
            definitions = [_read_fields(entry) for entry in _read_fields(fields[9][0])[1]]
            names = [entry[1][0].decode() for entry in definitions]
            assert names == list(document["definitions"])
            pod = _read_fields(definitions[names.index("io.k8s.api.core.v1.Pod")][2][0])
            properties = [_read_fields(entry) for entry in _read_fields(pod[25][0])[1]]
            spec = next(_read_fields(property_[2][0]) for property_ in properties if property_[1] == [b"spec"])
            assert spec[1] == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
            (gvk,) = (_read_fields(field) for field in pod[31])
            assert gvk[1] == [b"x-kubernetes-group-version-kind"]
            assert json.loads(_read_fields(gvk[2][0])[2][0]) == [{"group": "", "version": "v1", "kind": "Pod"}]
            assert len(_read_fields(fields[8][0])[2]) == len(document["paths"])

    run(check())


def _read_fields(message: bytes) -> dict[int, list[bytes]]:
    """Return the length-delimited fields of a protobuf message by number."""
    values: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        size, at = _read_varint(message, at)
        if key & 7 == 2:
            values.setdefault(key >> 3, []).append(message[at : at + size])
            at += size
    return values


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def test_custom_resources_are_described_by_their_own_schema() -> None:
    source = {"type": "object", "description": "A lamp.", "properties": {"spec": {"type": "object", "nullable": True}}}

    async def check() -> None:
        scheme = builtin_scheme()
        configmaps = scheme.resource("", "v1", "configmaps")
        assert configmaps is not None
        lamps = dataclasses.replace(
            configmaps, group="lights.example.com", plural="lamps", kind="Lamp", schema=from_openapi(source)
        )
        async with in_process_client(scheme) as client:
            before = (await client.get("/openapi/v3")).json["paths"]
            scheme.add(lamps)
            after = (await client.get("/openapi/v3")).json["paths"]
            assert set(after) - set(before) == {"apis/lights.example.com/v1"}
            assert {name: after[name] for name in before} == before
            document = (await client.get("/openapi/v3/apis/lights.example.com/v1")).json
            schema = document["components"]["schemas"]["com.example.lights.v1.Lamp"]
            assert schema["description"] == "A lamp."
            assert schema["properties"]["spec"] == {"type": "object", "nullable": True}
            assert "$ref" in schema["properties"]["metadata"]["allOf"][0]
            path = document["paths"]["/apis/lights.example.com/v1/namespaces/{namespace}/lamps/{name}"]
            assert "application/strategic-merge-patch+json" not in path["patch"]["requestBody"]["content"]
            old = (await client.get("/openapi/v2")).json["definitions"]["com.example.lights.v1.Lamp"]
            assert old["properties"]["spec"] == {}  # nullable, which v2 cannot express

    run(check())


def test_descriptions_come_from_the_installed_package() -> None:
    if not descriptions.are_installed():
        pytest.skip("kubernetes-validate is not installed")

    async def check() -> None:
        async with in_process_client() as client:
            schemas = (await client.get("/openapi/v3/api/v1")).json["components"]["schemas"]
            pod = schemas["io.k8s.api.core.v1.Pod"]
            assert pod["description"].startswith("Pod is a collection of containers")
            assert pod["properties"]["spec"]["description"]

    run(check())


def test_concurrent_requests_share_one_generated_document(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[int] = []
    generate = handler._v2_document

    def count(*args: Any) -> dict[str, Any]:
        generated.append(1)
        return generate(*args)

    monkeypatch.setattr(handler, "_v2_document", count)

    async def check() -> None:
        async with in_process_client() as client:
            replies = await asyncio.gather(*(client.get("/openapi/v2") for _ in range(8)))
            assert {reply.code for reply in replies} == {200}
            assert len({reply.body for reply in replies}) == 1

    run(check())
    assert generated == [1]
