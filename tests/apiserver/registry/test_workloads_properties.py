"""Random workloads, valid in part: the server never fails on them, and stores unchanged what it accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampan.api.schema import schemas
from sampan.api.types import apps_v1, autoscaling_v1, autoscaling_v2, batch_v1, core_v1, policy_v1
from tests.api.schema_values import values
from tests.apiserver.cluster import Cluster, in_cluster

LABELS = {"app": "a"}
CONTAINER = {"name": "c", "image": "nginx:1"}


def template(restart: str = "Always") -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"restartPolicy": restart, "containers": [CONTAINER]}}


WORKLOAD_SPEC = {"selector": {"matchLabels": LABELS}, "template": template()}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
KINDS: dict[str, tuple[str, type, dict[str, Any]]] = {
    "deployments": ("/apis/apps/v1", apps_v1.Deployment, WORKLOAD_SPEC),
    "replicasets": ("/apis/apps/v1", apps_v1.ReplicaSet, WORKLOAD_SPEC),
    "statefulsets": ("/apis/apps/v1", apps_v1.StatefulSet, WORKLOAD_SPEC),
    "daemonsets": ("/apis/apps/v1", apps_v1.DaemonSet, WORKLOAD_SPEC),
    "jobs": ("/apis/batch/v1", batch_v1.Job, {"template": template("Never")}),
    "cronjobs": (
        "/apis/batch/v1",
        batch_v1.CronJob,
        {"schedule": "1 2 * * *", "jobTemplate": {"spec": {"template": template("Never")}}},
    ),
    "horizontalpodautoscalers": (
        "/apis/autoscaling/v2",
        autoscaling_v2.HorizontalPodAutoscaler,
        {"scaleTargetRef": TARGET, "maxReplicas": 3},
    ),
    "horizontalpodautoscalers-v1": (
        "/apis/autoscaling/v1",
        autoscaling_v1.HorizontalPodAutoscaler,
        {"scaleTargetRef": TARGET, "maxReplicas": 3},
    ),
    "poddisruptionbudgets": ("/apis/policy/v1", policy_v1.PodDisruptionBudget, {"selector": {"matchLabels": LABELS}}),
    "replicationcontrollers": (
        "/api/v1",
        core_v1.ReplicationController,
        {"selector": LABELS, "template": template()},
    ),
}
"""The path, the type and a valid spec of each kind."""
MAX_EXAMPLES = 60
NUMBERS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])
TEXTS = st.sampled_from(
    [
        "",
        "a",
        "Never",
        "Indexed",
        "RollingUpdate",
        "OnDelete",
        "Recreate",
        "Parallel",
        "In",
        "Exists",
        "Resource",
        "10%",
    ]
)


@st.composite
def partly_random_objects(draw: st.DrawFn, kind: type, spec: dict[str, Any]) -> dict[str, Any]:
    """Draw a random object, or a valid spec with random fields at the top level or deep in the template."""
    schema = schemas.of(kind)
    value: dict[str, Any] = draw(values(schema, depth=draw(st.integers(2, 7))))
    random_spec: dict[str, Any] = value.get("spec", {})
    mode = draw(st.sampled_from(("random", "mixed", "deep")))
    if mode == "mixed":
        value["spec"] = {**random_spec, **spec}
    elif mode == "deep":
        value["spec"] = _merged(spec, random_spec)
    value_with_edges: dict[str, Any] = _with_edge_values(draw, value) if draw(st.booleans()) else value
    return {**value_with_edges, "metadata": {"name": "a"}}


def _with_edge_values(draw: st.DrawFn, value: Any) -> Any:
    """Return the value with some leaves replaced by extreme values of their type."""
    if isinstance(value, dict):
        return {key: _with_edge_values(draw, part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_edge_values(draw, part) for part in value]
    if draw(st.integers(0, 4)) or isinstance(value, float) or value is None:
        return value
    return not value if isinstance(value, bool) else draw(NUMBERS if isinstance(value, int) else TEXTS)


def _merged(valid: Any, other: Any) -> Any:
    """Return the union of both values, with the leaves of the valid one where both have them."""
    if isinstance(valid, dict) and isinstance(other, dict):
        return {**other, **{key: _merged(value, other.get(key)) for key, value in valid.items()}}
    return valid


@pytest.mark.parametrize("name", KINDS)
def test_random_objects_are_rejected_or_stored_unchanged(name: str) -> None:
    path, kind, spec = KINDS[name]
    plural = name.partition("-")[0]

    async def work(cluster: Cluster) -> None:
        collection = f"{path}/namespaces/ns/{plural}"
        for value in examples(partly_random_objects(kind, spec)):
            reply = await cluster.send("POST", collection, value)
            assert reply.code in (201, 400, 422), (value, reply.json)
            if reply.code == 201:
                await _assert_unchanged_by_put(cluster, f"{collection}/a", reply.json)
                await cluster.send("DELETE", f"{collection}/a?propagationPolicy=Background")

    in_cluster(work)


async def _assert_unchanged_by_put(cluster: Cluster, path: str, created: dict[str, Any]) -> None:
    again = await cluster.send("PUT", path, created)
    assert again.code == 200, (created, again.json)
    assert again.json == created
    read = await cluster.send("GET", path)
    assert read.json == created


@pytest.mark.parametrize("name", KINDS)
def test_random_updates_are_accepted_or_rejected_as_client_errors(name: str) -> None:
    path, kind, spec = KINDS[name]
    plural = name.partition("-")[0]

    async def work(cluster: Cluster) -> None:
        collection = f"{path}/namespaces/ns/{plural}"
        await cluster.make(collection, {"metadata": {"name": "a"}, "spec": spec})
        for value in examples(partly_random_objects(kind, spec)):
            present = (await cluster.send("GET", f"{collection}/a")).json
            changed = {**value, "metadata": present["metadata"]}
            for part in ("", "/status"):
                reply = await cluster.send("PUT", f"{collection}/a{part}", changed)
                assert reply.code in (200, 400, 409, 422), (value, reply.json)

    in_cluster(work)


def examples(strategy: st.SearchStrategy[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the values of one run; the server is asynchronous, so a test of hypothesis cannot call it."""
    examples_: list[dict[str, Any]] = []

    @settings(
        max_examples=MAX_EXAMPLES,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: dict[str, Any]) -> None:
        examples_.append(value)

    collect()
    return examples_
