"""Objects that kube-apiserver stored, in protobuf or JSON, are defaulted when they are read."""

from typing import Any

import msgspec
import pytest

from sampan.api.codec import protobuf
from tests.apiserver.in_process_server import in_process_client, run

CRD_SPEC: dict[str, Any] = {
    "group": "example.com",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "scope": "Namespaced",
    "versions": [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ],
    "preserveUnknownFields": False,
}
TEMPLATE = {
    "metadata": {"labels": {"job-name": "j"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
}


@pytest.mark.parametrize(
    ("key", "path", "value", "field", "expected"),
    [
        (
            "/registry/jobs/default/x",
            "/apis/batch/v1/namespaces/default/jobs",
            {"kind": "Job", "apiVersion": "batch/v1", "spec": {"template": TEMPLATE}},
            "metadata.labels",
            {"job-name": "j"},
        ),
        (
            "/registry/persistentvolumeclaims/default/x",
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": {"accessModes": ["ReadWriteOnce"]}},
            "status.phase",
            "Pending",
        ),
        (
            "/registry/statefulsets/default/x",
            "/apis/apps/v1/namespaces/default/statefulsets",
            {
                "kind": "StatefulSet",
                "apiVersion": "apps/v1",
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": TEMPLATE,
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
                },
            },
            "spec.volumeClaimTemplates.0.kind",
            "PersistentVolumeClaim",
        ),
        (
            "/registry/horizontalpodautoscalers/default/x",
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            {
                "kind": "HorizontalPodAutoscaler",
                "apiVersion": "autoscaling/v1",
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3},
            },
            "spec.minReplicas",
            1,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("/registry") else "",
)
def test_stored_protobuf_is_defaulted(key: str, path: str, value: dict[str, Any], field: str, expected: Any) -> None:
    async def check() -> None:
        async with in_process_client() as server:
            meta = {"name": "x", "namespace": "default", "uid": "u"}
            await server.registry.backend.put(key, protobuf.encode({**value, "metadata": meta}))
            for reply in (await server.get(f"{path}/x"), await server.get(path)):
                shown = reply.json
                assert _field_at(shown["items"][0] if "items" in shown else shown, field) == expected
            if field == "metadata.labels":
                assert len((await server.get(f"{path}?labelSelector=job-name=j")).json["items"]) == 1

    run(check())


def test_stored_json_with_a_newline_is_defaulted() -> None:
    async def check() -> None:
        async with in_process_client() as server:
            meta = {"name": "widgets.example.com", "uid": "u"}
            value = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": meta}
            stored = msgspec.json.encode({**value, "spec": CRD_SPEC}) + b"\n"
            await server.registry.backend.put(
                "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", stored
            )
            shown = (
                await server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
            ).json
            assert "preserveUnknownFields" not in shown["spec"]
            assert shown["spec"]["conversion"] == {"strategy": "None"}

    run(check())


def _field_at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else value[part]
    return value
