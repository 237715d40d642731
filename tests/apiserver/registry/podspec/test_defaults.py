from typing import Any

import msgspec
import pytest

from sampan.api.types.core_v1 import Pod, PodTemplateSpec
from sampan.apiserver.registry.podspec.defaults import default_pod, default_template
from tests.apiserver.pods import pod, pod_with_defaults, spec_with_container


def spec_of(pod: Pod) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(pod.spec)
    return value


def test_defaults_of_minimal_pod() -> None:
    assert spec_of(pod_with_defaults()) == {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


def test_a_template_gets_neither_service_links_nor_requests() -> None:
    template = msgspec.convert({"spec": spec_with_container(resources={"limits": {"cpu": "1"}})}, PodTemplateSpec)
    default_template(template)
    assert template.spec.enableServiceLinks is None
    assert template.spec.containers is not None
    assert template.spec.containers[0].resources.requests == {}


def test_defaulting_twice_changes_nothing() -> None:
    pod = pod_with_defaults(
        {**spec_with_container(ports=[{"containerPort": 80}]), "hostNetwork": True, "volumes": [{"name": "v"}]}
    )
    before = spec_of(pod)
    default_pod(pod)
    assert spec_of(pod) == before


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ({"httpGet": {"port": 80}}, {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}}),
        ({"grpc": {"port": 80}}, {"grpc": {"port": 80, "service": ""}}),
        ({"exec": {"command": ["ls"]}, "periodSeconds": 5}, {"exec": {"command": ["ls"]}, "periodSeconds": 5}),
    ],
)
def test_probe_defaults(probe: dict[str, Any], expected: dict[str, Any]) -> None:
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    actual = spec_of(pod_with_defaults(spec_with_container(livenessProbe=probe)))["containers"][0]["livenessProbe"]
    assert actual == {**numbers, **expected}


def test_requests_default_to_limits_and_are_rounded_up_to_milli_units() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100u"}}
    requirements = spec_of(pod_with_defaults(spec_with_container(resources=resources)))["containers"][0]["resources"]
    assert requirements == {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1m", "memory": "1Gi"}}


def test_pod_level_requests_default_to_container_requests_and_then_to_limits() -> None:
    pod = pod_with_defaults(
        {
            **spec_with_container(resources={"requests": {"cpu": "1"}}),
            "initContainers": [{"name": "i", "image": "x", "resources": {"requests": {"cpu": "3"}}}],
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
        }
    )
    assert pod.spec.resources is not None
    assert pod.spec.resources.requests == {"cpu": "3", "memory": "1Gi"}


def test_pod_level_limits_default_to_those_of_the_containers_if_all_have_some() -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    other = {"name": "d", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    pod = pod_with_defaults(
        {"containers": [container, other], "resources": {"requests": {"cpu": "4", "memory": "2Gi"}}}
    )
    assert pod.spec.resources is not None
    assert pod.spec.resources.limits == {"cpu": "4"}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "m", "defaultMode": 0}}, {"configMap": {"name": "m", "defaultMode": 0}}),
        ({"image": {"reference": "a"}}, {"image": {"reference": "a", "pullPolicy": "Always"}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
    ],
)
def test_volume_defaults(volume: dict[str, Any], expected: dict[str, Any]) -> None:
    volumes = spec_of(pod_with_defaults({"volumes": [{"name": "v", **volume}]}))["volumes"]
    assert volumes == [{"name": "v", **expected}]


@pytest.mark.parametrize(
    ("accounts", "expected"),
    [({"serviceAccount": "old"}, "old"), ({"serviceAccount": "old", "serviceAccountName": "new"}, "new"), ({}, "")],
)
def test_deprecated_service_account_field_mirrors_service_account_name(accounts: dict[str, str], expected: str) -> None:
    spec = pod_with_defaults(accounts).spec
    assert (spec.serviceAccountName, spec.serviceAccount) == (expected, expected)


def test_negative_termination_grace_period_becomes_one_second() -> None:
    assert pod_with_defaults({"terminationGracePeriodSeconds": -5}).spec.terminationGracePeriodSeconds == 1


@pytest.mark.parametrize(
    ("status", "addresses"),
    [
        ({"podIP": "10.0.0.1"}, ["10.0.0.1"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, ["10.0.0.1", "fd00::1"]),
        ({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}]}, ["10.0.0.9"]),
    ],
)
def test_pod_ip_and_pod_ips_are_synchronized(status: dict[str, Any], addresses: list[str]) -> None:
    new_pod = pod()
    new_pod.status = msgspec.convert(status, type(new_pod.status))
    default_pod(new_pod)
    assert [pod_ip.ip for pod_ip in new_pod.status.podIPs] == addresses
    assert new_pod.status.podIP == addresses[0]
