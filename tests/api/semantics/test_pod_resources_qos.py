from typing import Any

import pytest

from sampan.api.semantics.pod_resources import pod_requests, qos_class
from tests.apiserver.pods import CONTAINER, container, defaulted

FULL = {"limits": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "BestEffort"),
        (container(resources={"requests": {"cpu": "0"}}), "BestEffort"),
        (container(resources={"requests": {"x.io/g": "1"}, "limits": {"x.io/g": "1"}}), "BestEffort"),
        (container(resources={"requests": {"cpu": "1"}}), "Burstable"),
        (container(resources={"limits": {"cpu": "1"}}), "Burstable"),
        (container(resources=FULL), "Guaranteed"),
        (container(resources={**FULL, "requests": {"cpu": "500m"}}), "Burstable"),
        ({**container(resources=FULL), "initContainers": [{"name": "i", "image": "x"}]}, "Burstable"),
        ({"containers": [{**CONTAINER, "resources": FULL}, {"name": "d", "image": "x"}]}, "Burstable"),
        ({"resources": FULL}, "Guaranteed"),
        ({"resources": {"requests": {"cpu": "1"}}}, "Burstable"),
        ({**container(resources={"requests": {"cpu": "1"}}), "resources": {"limits": {"memory": "1"}}}, "Burstable"),
    ],
)
def test_qos_class(spec: dict[str, Any], expected: str) -> None:
    assert qos_class(defaulted(spec).spec) == expected


def test_requests_of_sidecars_add_to_later_containers() -> None:
    def requesting(name: str, cpu: str, **fields: str) -> dict[str, Any]:
        return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "initContainers": [
            requesting("before", "4"),
            requesting("sidecar", "2", restartPolicy="Always"),
            requesting("after", "3"),
        ],
        "containers": [requesting("c", "1")],
    }
    assert str(pod_requests(defaulted(spec).spec)["cpu"]) == "5"
