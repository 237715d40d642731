from typing import Any

import pytest

from sampan.api.semantics.pod_resources import pod_requests, qos_class
from tests.apiserver.pods import CONTAINER, pod_with_defaults, spec_with_container

FULL = {"limits": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "BestEffort"),
        (spec_with_container(resources={"requests": {"cpu": "0"}}), "BestEffort"),
        (spec_with_container(resources={"requests": {"x.io/g": "1"}, "limits": {"x.io/g": "1"}}), "BestEffort"),
        (spec_with_container(resources={"requests": {"cpu": "1"}}), "Burstable"),
        (spec_with_container(resources={"limits": {"cpu": "1"}}), "Burstable"),
        (spec_with_container(resources=FULL), "Guaranteed"),
        (spec_with_container(resources={**FULL, "requests": {"cpu": "500m"}}), "Burstable"),
        ({**spec_with_container(resources=FULL), "initContainers": [{"name": "i", "image": "x"}]}, "Burstable"),
        ({"containers": [{**CONTAINER, "resources": FULL}, {"name": "d", "image": "x"}]}, "Burstable"),
        ({"resources": FULL}, "Guaranteed"),
        ({"resources": {"requests": {"cpu": "1"}}}, "Burstable"),
        (
            {**spec_with_container(resources={"requests": {"cpu": "1"}}), "resources": {"limits": {"memory": "1"}}},
            "Burstable",
        ),
    ],
)
def test_qos_class(spec: dict[str, Any], expected: str) -> None:
    assert qos_class(pod_with_defaults(spec).spec) == expected


def test_requests_of_sidecars_add_to_later_containers() -> None:
    def container_with_request(name: str, cpu: str, **fields: str) -> dict[str, Any]:
        return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "initContainers": [
            container_with_request("before", "4"),
            container_with_request("sidecar", "2", restartPolicy="Always"),
            container_with_request("after", "3"),
        ],
        "containers": [container_with_request("c", "1")],
    }
    assert str(pod_requests(pod_with_defaults(spec).spec)["cpu"]) == "5"
