"""Field managers in whole requests: create, update, patch, apply, subresources, versions, and custom objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, register_mutating
from tests.apiserver.in_process_server import InProcessClient, Reply, in_process_client, run
from tests.apiserver.registry.subjects import GADGETS

NAMESPACE = "/api/v1/namespaces/default"
MAPS = f"{NAMESPACE}/configmaps"
SECRETS = f"{NAMESPACE}/secrets"
GADGET_PATH = "/apis/example.com/v1/namespaces/default/gadgets"
AUTOSCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
YAML, JSON, MERGE = "application/apply-patch+yaml", "application/json", "application/merge-patch+json"


class Client:
    def __init__(self, in_process: InProcessClient, agent: str = "agent/v1 (test)") -> None:
        self._in_process, self._agent = in_process, agent

    async def send(self, method: str, path: str, value: Any, media: str = JSON) -> Reply:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        return await self._in_process.send(method, path, body, content_type=media, user_agent=self._agent)

    async def create(self, path: str, value: Any) -> Any:
        reply = await self.send("POST", path, value)
        assert reply.code == 201, reply.body
        return reply.json

    async def send_ok(self, method: str, path: str, value: Any, media: str = JSON) -> Any:
        reply = await self.send(method, path, value, media)
        assert reply.code in (200, 201), reply.body
        return reply.json

    async def patch(self, path: str, value: Any) -> Any:
        return await self.send_ok("PATCH", path, value, MERGE)

    async def apply(self, path: str, value: Any, query: str = "fieldManager=applier") -> Any:
        return await self.send_ok("PATCH", f"{path}?{query}", value, YAML)


def run_with_client(work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        scheme = builtin_scheme()
        scheme.add(GADGETS)
        async with in_process_client(scheme) as in_process:
            await work(Client(in_process))

    run(main())


def owned_fields(obj: Any) -> dict[tuple[str, ...], Any]:
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


def test_create_update_and_patch_record_field_managers() -> None:
    async def work(client: Client) -> None:
        created = await client.create(MAPS, config_map(x="1"))
        assert owned_fields(created) == {AGENT: {"f:data": {".": {}, "f:x": {}}}}
        assert created["metadata"]["managedFields"][0]["time"] == created["metadata"]["creationTimestamp"]
        changed = await client.send_ok("PUT", f"{MAPS}/a?fieldManager=putter", config_map(x="1", y="2"))
        assert owned_fields(changed) == {
            AGENT: {"f:data": {".": {}, "f:x": {}}},
            ("putter", "Update"): {"f:data": {"f:y": {}}},
        }
        patched = await client.patch(f"{MAPS}/a", {"data": {"y": "3"}})
        assert owned_fields(patched) == {AGENT: {"f:data": {".": {}, "f:x": {}, "f:y": {}}}}

    run_with_client(work)


def test_write_without_changes_does_not_update_the_object() -> None:
    async def work(client: Client) -> None:
        created = await client.create(MAPS, config_map(x="1"))
        assert await client.send_ok("PUT", f"{MAPS}/a?fieldManager=other", created) == created
        assert await client.patch(f"{MAPS}/a?fieldManager=other", {"data": {"x": "1"}}) == created

    run_with_client(work)


def test_fields_set_by_the_server_have_no_field_manager() -> None:
    async def work(client: Client) -> None:
        created = await client.create(f"{NAMESPACE}/pods", POD)
        (fields,) = owned_fields(created).values()
        assert set(fields["f:spec"]) >= {"f:containers", "f:restartPolicy", "f:dnsPolicy"}, (
            "defaults belong to the client"
        )
        assert "f:priority" not in fields["f:spec"]
        assert "f:status" not in fields

    run_with_client(work)


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"name":"a","managedFields":[]},"data":{"x":"1"}}',
        b'{"metadata":{"name":"a","managedFields":[{}]},"data":{"x":"1"}}',
    ],
)
def test_update_with_empty_managed_fields_resets_field_managers(body: bytes) -> None:
    async def work(client: Client) -> None:
        await client.create(MAPS, config_map(x="1"))
        assert owned_fields(await client.send_ok("PUT", f"{MAPS}/a", body)) == {}
        assert owned_fields(await client.patch(f"{MAPS}/a", {"data": {"x": "2"}})) == {}
        applied = await client.apply(f"{MAPS}/a", config_map(y="1"))
        assert set(owned_fields(applied)) == {("applier", "Apply"), ("before-first-apply", "Update")}

    run_with_client(work)


def test_yaml_update_with_empty_managed_fields_resets_field_managers() -> None:
    async def work(client: Client) -> None:
        await client.create(MAPS, config_map(x="1"))
        text = b"metadata: {name: a, managedFields: []}\ndata: {x: '1'}\n"
        assert owned_fields(await client.send_ok("PUT", f"{MAPS}/a", text, "application/yaml")) == {}

    run_with_client(work)


def test_apply_creates_updates_and_removes_fields_and_reports_conflicts() -> None:
    async def work(client: Client) -> None:
        reply = await client.send("PATCH", f"{MAPS}/a?fieldManager=one", config_map(x="1", y="2"), YAML)
        assert (reply.code, reply.json["data"]) == (201, {"x": "1", "y": "2"})
        again = await client.apply(f"{MAPS}/a", config_map(x="1", y="2"), "fieldManager=one")
        assert again == reply.json
        reduced = await client.apply(
            f"{MAPS}/a", b"apiVersion: v1\nkind: ConfigMap\ndata: {x: '5'}\n", "fieldManager=one"
        )
        assert reduced["data"] == {"x": "5"}
        assert owned_fields(reduced) == {("one", "Apply"): {"f:data": {"f:x": {}}}}
        rejected = await client.send("PATCH", f"{MAPS}/a?fieldManager=two", config_map(x="6"), YAML)
        assert rejected.code == 409
        assert rejected.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.x'
        forced = await client.apply(f"{MAPS}/a", config_map(x="6"), "fieldManager=two&force=true")
        assert owned_fields(forced) == {("two", "Apply"): {"f:data": {"f:x": {}}}}
        dry = await client.apply(f"{MAPS}/a", config_map(x="7"), "fieldManager=two&dryRun=All")
        assert (dry["data"], dry["metadata"]["resourceVersion"]) == ({"x": "7"}, forced["metadata"]["resourceVersion"])

    run_with_client(work)


YAML_ERROR = "error decoding patch: error "
NOT_A_MAP = "json: cannot unmarshal array into Go value of type map[string]interface {}"


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"[a]", 400, f"{YAML_ERROR}unmarshaling JSON: while decoding JSON: {NOT_A_MAP}"),
        (b"", 400, "invalid object type: /, Kind="),
        (b"a: [", 400, "error encoding patch: yaml: line 1: did not find expected node content"),
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
def test_invalid_apply_requests_are_rejected(body: bytes, code: int, text: str) -> None:
    async def work(client: Client) -> None:
        reply = await client.send("PATCH", f"{MAPS}/new?fieldManager=m", body, YAML)
        assert (reply.code, reply.json["message"]) == (code, text)

    run_with_client(work)


def test_apply_of_an_invalid_quantity_gets_500() -> None:
    async def work(client: Client) -> None:
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "much"}}}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        reply = await client.send("PATCH", f"{NAMESPACE}/pods/p?fieldManager=m", pod, YAML)
        assert reply.code == 500
        assert reply.json["message"].startswith(
            "failed to convert new object (/p; /v1, Kind=Pod) to proper version: quantities must match"
        )

    run_with_client(work)


def test_duplicate_keys_in_an_apply_follow_field_validation() -> None:
    async def work(client: Client) -> None:
        duplicate = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
        strict = await client.send("PATCH", f"{MAPS}/a?fieldManager=m&fieldValidation=Strict", duplicate, YAML)
        assert strict.code == 400
        assert strict.json["message"] == (
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 1: key "x" already set in map'
        )
        assert (await client.apply(f"{MAPS}/a", duplicate))["data"] == {"x": "2"}

    run_with_client(work)


def test_status_subresource_has_separate_field_managers() -> None:
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
        assert owned_fields(patched)["agent", "Update", "status"] == {
            "f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': ready}}
        }
        path = f"{NAMESPACE}/pods/none/status?fieldManager=m"
        missing = await client.send("PATCH", path, {"apiVersion": "v1", "kind": "Pod"}, YAML)
        assert missing.code == 404

    run_with_client(work)


def test_field_managers_of_different_api_versions_are_kept_apart() -> None:
    async def work(client: Client) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
        await client.create(AUTOSCALERS.format("v1"), {"metadata": {"name": "h"}, "spec": spec})
        changed = await client.patch(f"{AUTOSCALERS.format('v2')}/h?fieldManager=new", {"spec": {"maxReplicas": 5}})
        entries = {field["manager"]: field for field in changed["metadata"]["managedFields"]}
        assert entries["agent"]["apiVersion"] == "autoscaling/v1"
        assert "f:maxReplicas" not in entries["agent"]["fieldsV1"]["f:spec"]
        assert "f:targetCPUUtilizationPercentage" in entries["agent"]["fieldsV1"]["f:spec"]
        assert entries["new"]["apiVersion"] == "autoscaling/v2"
        assert entries["new"]["fieldsV1"] == {"f:spec": {"f:maxReplicas": {}}}
        scaler = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 6}}
        rejected = await client.send("PATCH", f"{AUTOSCALERS.format('v1')}/h?fieldManager=m", scaler, YAML)
        assert 'conflict with "new" using autoscaling/v2: .spec.maxReplicas' in rejected.json["message"]

    run_with_client(work)


def test_field_managers_of_custom_objects() -> None:
    async def work(client: Client) -> None:
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
        created = await client.create(GADGET_PATH, gadget)
        assert owned_fields(created) == {AGENT: {"f:spec": {".": {}, "f:colour": {}, "f:size": {}}}}
        applied = await client.apply(f"{GADGET_PATH}/g", {**gadget, "spec": {"size": 1, "list": ["a"]}})
        assert owned_fields(applied)["applier", "Apply"] == {"f:spec": {"f:list": {}, "f:size": {}}}
        patched = await client.patch(f"{GADGET_PATH}/g/status", {"status": {"seen": 1}, "spec": {"size": 9}})
        assert patched["spec"]["size"] == 1
        assert owned_fields(patched)["agent", "Update", "status"] == {"f:status": {".": {}, "f:seen": {}}}
        reduced = await client.apply(f"{GADGET_PATH}/g", {**gadget, "spec": {"size": 1}})
        assert "list" not in reduced["spec"]
        rejected = await client.send(
            "PATCH", f"{GADGET_PATH}/g?fieldManager=m", {**gadget, "spec": {"weight": 1}}, YAML
        )
        assert rejected.code == 500
        assert rejected.json["message"] == (
            "failed to create typed patch object (/g; example.com/v1, Kind=Gadget): "
            ".spec.weight: field not declared in schema"
        )
        again = await client.apply(f"{GADGET_PATH}/g", {**gadget, "spec": {"size": 1}})
        assert again == reduced

    run_with_client(work)


def test_scale_subresource_takes_ownership_of_replicas() -> None:
    async def work(client: Client) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        await client.patch(f"{DEPLOYMENTS}/d/scale?fieldManager=scaler", {"spec": {"replicas": 3}})
        deployment = (await client.send("GET", f"{DEPLOYMENTS}/d", b"")).json
        assert "f:replicas" not in owned_fields(deployment)[AGENT]["f:spec"]
        assert owned_fields(deployment)["scaler", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 4}}
        path = f"{DEPLOYMENTS}/d/scale?fieldManager=other"
        rejected = await client.send("PATCH", path, scale, YAML)
        assert rejected.json["message"] == (
            'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using autoscaling/v1: '
            ".spec.replicas"
        )
        forced = await client.send_ok("PATCH", f"{path}&force=true", scale, YAML)
        assert forced["spec"]["replicas"] == 4
        after = (await client.send("GET", f"{DEPLOYMENTS}/d", b"")).json
        assert owned_fields(after)["other", "Apply", "scale"] == {"f:spec": {"f:replicas": {}}}
        assert after["spec"]["replicas"] == 4

    run_with_client(work)


class _InvalidManagedFields:
    """A mutating admission plugin that sets invalid managed fields."""

    name = "InvalidManagedFields"

    def __init__(self, entry: ManagedFieldsEntry) -> None:
        self._entry = entry

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return True

    async def admit(self, attributes: AdmissionAttributes) -> None:
        attributes.obj.metadata.managedFields = [self._entry]


def test_invalid_managed_fields_from_admission_are_discarded_with_a_warning() -> None:
    async def work() -> None:
        async with in_process_client(
            plugins=[register_mutating(_InvalidManagedFields(ManagedFieldsEntry(manager="x", operation="Think")))]
        ) as in_process:
            call = in_process.make_call("POST", MAPS, msgspec.json.encode(config_map(x="1")), {"user_agent": "agent"})
            await in_process.pipeline.serve_as(call)
            (warning,) = call.warnings
            assert warning.startswith(".metadata.managedFields was in an invalid state after admission; ")
            assert warning.endswith("please fix your requests: operation must be `Apply` or `Update`")
            assert set(owned_fields((await in_process.get(f"{MAPS}/a")).json)) == {AGENT}

    run(work())
