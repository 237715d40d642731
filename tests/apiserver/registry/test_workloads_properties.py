"""Random workloads, sensible in part: the server never breaks on them, and what it accepts it keeps as it is."""

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


RUNS = {"selector": {"matchLabels": LABELS}, "template": template()}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
KINDS: dict[str, tuple[str, type, dict[str, Any]]] = {
    "deployments": ("/apis/apps/v1", apps_v1.Deployment, RUNS),
    "replicasets": ("/apis/apps/v1", apps_v1.ReplicaSet, RUNS),
    "statefulsets": ("/apis/apps/v1", apps_v1.StatefulSet, RUNS),
    "daemonsets": ("/apis/apps/v1", apps_v1.DaemonSet, RUNS),
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
"""Path, type, and a spec that is accepted."""
OF_A_TEST = 60
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
def mixtures(draw: st.DrawFn, kind: type, spec: dict[str, Any]) -> dict[str, Any]:
    """A whole random object, or a good spec with some random fields, on the surface or deep in the template."""
    schema = schemas.of(kind)
    value: dict[str, Any] = draw(values(schema, depth=draw(st.integers(2, 7))))
    random_spec: dict[str, Any] = value.get("spec", {})
    how = draw(st.sampled_from(("random", "mixed", "deep")))
    if how == "mixed":
        value["spec"] = {**random_spec, **spec}
    elif how == "deep":
        value["spec"] = _joined(spec, random_spec)
    shaken: dict[str, Any] = _shaken(draw, value) if draw(st.booleans()) else value
    return {**shaken, "metadata": {"name": "a"}}


def _shaken(draw: st.DrawFn, value: Any) -> Any:
    """With some leaves replaced by others of their type, at the edges of what there is."""
    if isinstance(value, dict):
        return {key: _shaken(draw, part) for key, part in value.items()}
    if isinstance(value, list):
        return [_shaken(draw, part) for part in value]
    if draw(st.integers(0, 4)) or isinstance(value, float) or value is None:
        return value
    return not value if isinstance(value, bool) else draw(NUMBERS if isinstance(value, int) else TEXTS)


def _joined(good: Any, other: Any) -> Any:
    """The good value where both have one, down to the leaves."""
    if isinstance(good, dict) and isinstance(other, dict):
        return {**other, **{key: _joined(value, other.get(key)) for key, value in good.items()}}
    return good


@pytest.mark.parametrize("name", KINDS)
def test_random_objects_are_taken_as_they_are_or_refused(name: str) -> None:
    path, kind, spec = KINDS[name]
    plural = name.partition("-")[0]

    async def work(cluster: Cluster) -> None:
        collection = f"{path}/namespaces/ns/{plural}"
        for value in examples(mixtures(kind, spec)):
            reply = await cluster.send("POST", collection, value)
            assert reply.code in (201, 400, 422), (value, reply.json)
            if reply.code == 201:
                await _stays(cluster, f"{collection}/a", reply.json)
                await cluster.send("DELETE", f"{collection}/a?propagationPolicy=Background")

    in_cluster(work)


async def _stays(cluster: Cluster, path: str, created: dict[str, Any]) -> None:
    again = await cluster.send("PUT", path, created)
    assert again.code == 200, (created, again.json)
    assert again.json == created
    read = await cluster.send("GET", path)
    assert read.json == created


@pytest.mark.parametrize("name", KINDS)
def test_random_changes_are_taken_as_they_are_or_refused(name: str) -> None:
    path, kind, spec = KINDS[name]
    plural = name.partition("-")[0]

    async def work(cluster: Cluster) -> None:
        collection = f"{path}/namespaces/ns/{plural}"
        await cluster.make(collection, {"metadata": {"name": "a"}, "spec": spec})
        for value in examples(mixtures(kind, spec)):
            present = (await cluster.send("GET", f"{collection}/a")).json
            changed = {**value, "metadata": present["metadata"]}
            for part in ("", "/status"):
                reply = await cluster.send("PUT", f"{collection}/a{part}", changed)
                assert reply.code in (200, 400, 409, 422), (value, reply.json)

    in_cluster(work)


def examples(strategy: st.SearchStrategy[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values of one run; the server is asynchronous, so that it cannot be asked from inside of hypothesis."""
    examples_: list[dict[str, Any]] = []

    @settings(
        max_examples=OF_A_TEST, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(value: dict[str, Any]) -> None:
        examples_.append(value)

    collect()
    return examples_
