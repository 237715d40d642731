from typing import Any

import pytest

from sampan.apiserver.registry.podspec.warnings import warnings_for
from tests.apiserver.pods import pod_with_defaults, spec_with_container

C0 = "spec.containers[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
        ),
        (
            {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
            ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
        ),
        (
            spec_with_container(resources={"requests": {"memory": "1500m"}}),
            [f'{C0}.resources.requests[memory]: fractional byte value "1500m" is invalid, must be an integer'],
        ),
        (
            spec_with_container(
                env=[{"name": "A", "value": "x"}, {"name": "A", "value": "$(A)y"}, {"name": "A", "value": "z"}]
            ),
            [f'{C0}.env[2]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (
            spec_with_container(ports=[{"containerPort": 80}, {"containerPort": 80}]),
            [f"{C0}.ports[1]: duplicate port definition with {C0}.ports[0]"],
        ),
        (
            spec_with_container(ports=[{"containerPort": 80, "hostIP": "10.0.0.1"}]),
            [
                f"{C0}.ports[0]: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:80 Protocol:TCP "
                "HostIP:10.0.0.1}"
            ],
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]},
            [
                'spec.imagePullSecrets[1].name: duplicate name "a"',
                'spec.imagePullSecrets[2].name: invalid empty name ""',
            ],
        ),
        (
            {"hostAliases": [{"ip": "fd00:0::1"}]},
            [
                'spec.hostAliases[0].ip: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")',
            ],
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "configMap": {"name": "m", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]},
                    }
                ]
            },
            ['volume "v" (ConfigMap "m"): overlapping paths: "x/y" with "x"'],
        ),
    ],
)
def test_warnings(spec: dict[str, Any], expected: list[str]) -> None:
    pod = pod_with_defaults(spec)
    assert list(warnings_for(pod.spec, pod.metadata)) == expected


def test_template_warnings_have_the_template_path_and_cover_annotations() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    pod = pod_with_defaults({"nodeSelector": {"beta.kubernetes.io/os": "x"}}, annotations={key: "unconfined"})
    warnings = list(warnings_for(pod.spec, pod.metadata, "spec.template"))
    assert [text.partition(": ")[0] for text in warnings] == [
        "spec.template.spec.nodeSelector[beta.kubernetes.io/os]",
        f"spec.template.metadata.annotations[{key}]",
    ]
    assert [text for text in warnings_for(pod.spec, pod.metadata) if "annotations" in text] == []
