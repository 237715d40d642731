"""Patches of a pod as the API server and `kubectl apply` see them."""

from collections.abc import Iterator

from benchmarks import Row
from benchmarks.sample_pods import condition, pending_pod
from benchmarks.timing import best_us
from sampan.api.schema import schemas
from sampan.api.schema.tree import copy_value
from sampan.machinery import patch

POD = "io.k8s.api.core.v1.Pod"


def rows() -> Iterator[Row]:
    schema, live = schemas.definition(POD), pending_pod()
    status = {"status": {"phase": "Running", "conditions": [condition("Ready", "True")]}}
    yield Row(
        "strategic patch of a pod's status",
        best_us(lambda: patch.apply_strategic_patch(live, status, schema)),
        "us",
        60,
    )
    yield Row("merge patch of a pod's status", best_us(lambda: patch.apply_merge_patch(live, status)), "us")
    labels = [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]
    yield Row("JSON patch of a pod's label", best_us(lambda: patch.apply_json_patch(live, labels)), "us")
    applied = {key: live[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    desired = copy_value(applied)
    desired["spec"]["containers"][0]["image"] = "nginx:1.26"
    diff_us = best_us(lambda: patch.three_way_strategic_diff(applied, desired, live, schema))
    yield Row("three-way strategic diff of a pod", diff_us, "us")
