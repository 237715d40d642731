"""Managers of fields through whole requests: create, update, patch, apply, parts of objects, other versions, dicts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, mutating
from tests.apiserver.in_process_server import Asking, Reply, asking, run
from tests.apiserver.registry.subjects import GADGETS

NAMESPACE = "/api/v1/namespaces/default"
MAPS = f"{NAMESPACE}/configmaps"
SECRETS = f"{NAMESPACE}/secrets"
THINGS = "/apis/example.com/v1/namespaces/default/gadgets"
SCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
YAML, JSON, MERGE = "application/apply-patch+yaml", "application/json", "application/merge-patch+json"


class Client:
    def __init__(self, ask: Asking, agent: str = "agent/v1 (test)") -> None:
        self._ask, self._agent = ask, agent

    async def send(self, method: str, path: str, value: Any, media: str = JSON) -> Reply:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        return await self._ask.send(method, path, body, content_type=media, user_agent=self._agent)

    async def create(self, path: str, value: Any) -> Any:
        reply = await self.send("POST", path, value)
        assert reply.code == 201, reply.body
        return reply.json

    async def done(self, method: str, path: str, value: Any, media: str = JSON) -> Any:
        reply = await self.send(method, path, value, media)
        assert reply.code in (200, 201), reply.body
        return reply.json

    async def patch(self, path: str, value: Any) -> Any:
        return await self.done("PATCH", path, value, MERGE)

    async def apply(self, path: str, value: Any, query: str = "fieldManager=applier") -> Any:
        return await self.done("PATCH", f"{path}?{query}", value, YAML)


def with_client(work: Callable[[Client], Awaitable[None]]) -> None:
    async def within() -> None:
        scheme = builtin_scheme()
        scheme.add(GADGETS)
        async with asking(scheme) as ask:
            await work(Client(ask))

    run(within())


def owned(obj: Any) -> dict[tuple[str, ...], Any]:
    return {
        tuple(part for part in (entry["manager"], entry["operation"], entry.get("subresource", "")) if part): entry[
            "fieldsV1"
        ]
        for entry in obj["metadata"].get("managedFields", [])
    }


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


AGENT = ("agent", "Update")
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_from_create_to_update() -> None:
    async def work(client: Client) -> None:
        created = await client.create(MAPS, config_map(x="1"))
        assert owned(created) == {AGENT: {"f:data": {".": {}, "f:x": {}}}}
        assert created["metadata"]["managedFields"][0]["time"] == created["metadata"]["creationTimestamp"]
        changed = await client.done("PUT", f"{MAPS}/a?fieldManager=putter", config_map(x="1", y="2"))
        assert owned(changed) == {
            AGENT: {"f:data": {".": {}, "f:x": {}}},
            ("putter", "Update"): {"f:data": {"f:y": {}}},
        }
        patched = await client.patch(f"{MAPS}/a", {"data": {"y": "3"}})
        assert owned(patched) == {AGENT: {"f:data": {".": {}, "f:x": {}, "f:y": {}}}}

    with_client(work)


def test_a_write_of_the_same_is_no_write() -> None:
    async def work(client: Client) -> None:
        created = await client.create(MAPS, config_map(x="1"))
        assert await client.done("PUT", f"{MAPS}/a?fieldManager=other", created) == created
        assert await client.patch(f"{MAPS}/a?fieldManager=other", {"data": {"x": "1"}}) == created

    with_client(work)


def test_what_the_server_adds_belongs_to_nobody() -> None:
    async def work(client: Client) -> None:
        created = await client.create(f"{NAMESPACE}/pods", POD)
        (fields,) = owned(created).values()
        assert set(fields["f:spec"]) >= {"f:containers", "f:restartPolicy", "f:dnsPolicy"}, "defaults are the client's"
        assert "f:priority" not in fields["f:spec"]
        assert "f:status" not in fields

    with_client(work)


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"name":"a","managedFields":[]},"data":{"x":"1"}}',
        b'{"metadata":{"name":"a","managedFields":[{}]},"data":{"x":"1"}}',
    ],
)
def test_an_update_may_reset_the_managers(body: bytes) -> None:
    async def work(client: Client) -> None:
        await client.create(MAPS, config_map(x="1"))
        assert owned(await client.done("PUT", f"{MAPS}/a", body)) == {}
        assert owned(await client.patch(f"{MAPS}/a", {"data": {"x": "2"}})) == {}
        applied = await client.apply(f"{MAPS}/a", config_map(y="1"))
        assert set(owned(applied)) == {("applier", "Apply"), ("before-first-apply", "Update")}

    with_client(work)


def test_a_reset_in_yaml() -> None:
    async def work(client: Client) -> None:
        await client.create(MAPS, config_map(x="1"))
        text = b"metadata: {name: a, managedFields: []}\ndata: {x: '1'}\n"
        assert owned(await client.done("PUT", f"{MAPS}/a", text, "application/yaml")) == {}

    with_client(work)


def test_apply_makes_changes_and_takes_away() -> None:
    async def work(client: Client) -> None:
        reply = await client.send("PATCH", f"{MAPS}/a?fieldManager=one", config_map(x="1", y="2"), YAML)
        assert (reply.code, reply.json["data"]) == (201, {"x": "1", "y": "2"})
        again = await client.apply(f"{MAPS}/a", config_map(x="1", y="2"), "fieldManager=one")
        assert again == reply.json
        less = await client.apply(f"{MAPS}/a", b"apiVersion: v1\nkind: ConfigMap\ndata: {x: '5'}\n", "fieldManager=one")
        assert less["data"] == {"x": "5"}
        assert owned(less) == {("one", "Apply"): {"f:data": {"f:x": {}}}}
        refused = await client.send("PATCH", f"{MAPS}/a?fieldManager=two", config_map(x="6"), YAML)
        assert refused.code == 409
        assert refused.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.x'
        forced = await client.apply(f"{MAPS}/a", config_map(x="6"), "fieldManager=two&force=true")
        assert owned(forced) == {("two", "Apply"): {"f:data": {"f:x": {}}}}
        dry = await client.apply(f"{MAPS}/a", config_map(x="7"), "fieldManager=two&dryRun=All")
        assert (dry["data"], dry["metadata"]["resourceVersion"]) == ({"x": "7"}, forced["metadata"]["resourceVersion"])

    with_client(work)


BAD = "error decoding YAML: error "
NO_MAP = "json: cannot unmarshal array into Go value of type map[string]interface {}"


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"[a]", 400, f"{BAD}unmarshaling JSON: while decoding JSON: {NO_MAP}"),
        (b"", 400, "invalid object type: /, Kind="),
        (b"a: [", 400, f"{BAD}converting YAML to JSON: yaml: line 1: did not find expected node content"),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"other"}}',
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","uid":"u"}}',
            409,
            'Operation cannot be fulfilled on configmaps "new": uid mismatch: the provided object specified uid u, and '
            "no existing object was found",
        ),
    ],
)
def test_what_cannot_be_applied(body: bytes, code: int, text: str) -> None:
    async def work(client: Client) -> None:
        reply = await client.send("PATCH", f"{MAPS}/new?fieldManager=m", body, YAML)
        assert (reply.code, reply.json["message"]) == (code, text)

    with_client(work)


def test_a_value_that_only_its_type_refuses() -> None:
    async def work(client: Client) -> None:
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "much"}}}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        reply = await client.send("PATCH", f"{NAMESPACE}/pods/p?fieldManager=m", pod, YAML)
        assert reply.code == 500
        assert reply.json["message"].startswith(
            "failed to convert new object (/p; /v1, Kind=Pod) to proper version: quantities must match"
        )

    with_client(work)


def test_keys_that_are_there_twice() -> None:
    async def work(client: Client) -> None:
        twice = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
        strict = await client.send("PATCH", f"{MAPS}/a?fieldManager=m&fieldValidation=Strict", twice, YAML)
        assert strict.code == 400
        assert strict.json["message"] == (
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 1: key "x" already set in map'
        )
        assert (await client.apply(f"{MAPS}/a", twice))["data"] == {"x": "2"}

    with_client(work)


def test_the_status_has_managers_of_its_own() -> None:
    async def work(client: Client) -> None:
        await client.create(f"{NAMESPACE}/pods", POD)
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"nodeName": "n"}}
        patched = await client.patch(f"{NAMESPACE}/pods/p/status", status)
        ready: dict[str, Any] = {
            ".": {},
            "f:lastProbeTime": {},
            "f:lastTransitionTime": {},
            "f:status": {},
            "f:type": {},
        }
        assert owned(patched)["agent", "Update", "status"] == {
            "f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': ready}}
        }
        path = f"{NAMESPACE}/pods/none/status?fieldManager=m"
        missing = await client.send("PATCH", path, {"apiVersion": "v1", "kind": "Pod"}, YAML)
        assert missing.code == 404

    with_client(work)


def test_a_manager_of_another_version() -> None:
    async def work(client: Client) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
        await client.create(SCALERS.format("v1"), {"metadata": {"name": "h"}, "spec": spec})
        changed = await client.patch(f"{SCALERS.format('v2')}/h?fieldManager=new", {"spec": {"maxReplicas": 5}})
        entries = {field["manager"]: field for field in changed["metadata"]["managedFields"]}
        assert entries["agent"]["apiVersion"] == "autoscaling/v1"
        assert "f:maxReplicas" not in entries["agent"]["fieldsV1"]["f:spec"]
        assert "f:targetCPUUtilizationPercentage" in entries["agent"]["fieldsV1"]["f:spec"]
        assert entries["new"]["apiVersion"] == "autoscaling/v2"
        assert entries["new"]["fieldsV1"] == {"f:spec": {"f:maxReplicas": {}}}
        scaler = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 6}}
        refused = await client.send("PATCH", f"{SCALERS.format('v1')}/h?fieldManager=m", scaler, YAML)
        assert 'conflict with "new" using autoscaling/v2: .spec.maxReplicas' in refused.json["message"]

    with_client(work)


def test_objects_that_are_dicts() -> None:
    async def work(client: Client) -> None:
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
        created = await client.create(THINGS, gadget)
        assert owned(created) == {AGENT: {"f:spec": {".": {}, "f:colour": {}, "f:size": {}}}}
        applied = await client.apply(f"{THINGS}/g", {**gadget, "spec": {"size": 1, "list": ["a"]}})
        assert owned(applied)["applier", "Apply"] == {"f:spec": {"f:list": {}, "f:size": {}}}
        patched = await client.patch(f"{THINGS}/g/status", {"status": {"seen": 1}, "spec": {"size": 9}})
        assert patched["spec"]["size"] == 1
        assert owned(patched)["agent", "Update", "status"] == {"f:status": {".": {}, "f:seen": {}}}
        less = await client.apply(f"{THINGS}/g", {**gadget, "spec": {"size": 1}})
        assert "list" not in less["spec"]
        refused = await client.send("PATCH", f"{THINGS}/g?fieldManager=m", {**gadget, "spec": {"weight": 1}}, YAML)
        assert refused.code == 500
        assert refused.json["message"] == (
            "failed to create typed patch object (/g; example.com/v1, Kind=Gadget): "
            ".spec.weight: field not declared in schema"
        )
        again = await client.apply(f"{THINGS}/g", {**gadget, "spec": {"size": 1}})
        assert again == less

    with_client(work)


def test_the_scale_takes_the_replicas() -> None:
    async def work(client: Client) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        await client.patch(f"{DEPLOYMENTS}/d/scale?fieldManager=scaler", {"spec": {"replicas": 3}})
        deployment = (await client.send("GET", f"{DEPLOYMENTS}/d", b"")).json
        assert "f:replicas" not in owned(deployment)[AGENT]["f:spec"]
        assert owned(deployment)["scaler", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 4}}
        path = f"{DEPLOYMENTS}/d/scale?fieldManager=other"
        refused = await client.send("PATCH", path, scale, YAML)
        assert refused.json["message"] == (
            'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using autoscaling/v1: '
            ".spec.replicas"
        )
        forced = await client.done("PATCH", f"{path}&force=true", scale, YAML)
        assert forced["spec"]["replicas"] == 4
        after = (await client.send("GET", f"{DEPLOYMENTS}/d", b"")).json
        assert owned(after)["other", "Apply", "scale"] == {"f:spec": {"f:replicas": {}}}
        assert after["spec"]["replicas"] == 4

    with_client(work)


class _Meddling:
    """Admission that spoils the managers of what it sees."""

    name = "Meddling"

    def __init__(self, entry: ManagedFieldsEntry) -> None:
        self._entry = entry

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return True

    async def admit(self, attributes: AdmissionAttributes) -> None:
        attributes.obj.metadata.managedFields = [self._entry]


def test_admission_cannot_spoil_the_managers() -> None:
    async def work() -> None:
        async with asking(plugins=[mutating(_Meddling(ManagedFieldsEntry(manager="x", operation="Think")))]) as ask:
            call = ask.call("POST", MAPS, msgspec.json.encode(config_map(x="1")), {"user_agent": "agent"})
            await ask.pipeline.serve_as(call)
            (warning,) = call.warnings
            assert warning.startswith(".metadata.managedFields was in an invalid state after admission; ")
            assert warning.endswith("please fix your requests: operation must be `Apply` or `Update`")
            assert set(owned((await ask.get(f"{MAPS}/a")).json)) == {AGENT}

    run(work())
