"""Core kinds: rules that the golden replay does not cover."""

import base64
from typing import Any

import pytest

from sampan.host.clock import VirtualClock
from tests.apiserver.registry.shared_store_servers import NAMESPACE, ApiServer, run_with_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
REVISIONS = "/apis/apps/v1/namespaces/ns/controllerrevisions"
CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


def named_object(**content: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, **content}


def encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CIDR_SPEC = "spec.cidrs: Invalid value"
TOO_LONG = "x" * (1024 * 1024 + 1)


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        (
            f"{NAMESPACE}/configmaps",
            named_object(data={"k": TOO_LONG}),
            ["[]: Too long: may not be more than 1048576 bytes"],
        ),
        (
            f"{NAMESPACE}/secrets",
            named_object(stringData={"k": TOO_LONG}),
            ["data: Too long: may not be more than 1048576 bytes"],
        ),
        (
            f"{NAMESPACE}/secrets",
            named_object(type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": "[]"}),
            [
                'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array '
                "into Go value of type map[string]interface {}"
            ],
        ),
        (
            f"{NAMESPACE}/limitranges",
            named_object(
                spec={
                    "limits": [
                        {"type": "Container", "default": {"example.com/x": 2}, "defaultRequest": {"example.com/x": 1}}
                    ]
                }
            ),
            [
                'spec.limits[0].defaultRequest[example.com/x]: Invalid value: "1": default value 2 must equal to '
                "defaultRequest value 1 in example.com/x"
            ],
        ),
        (
            f"{NAMESPACE}/limitranges",
            named_object(
                spec={
                    "limits": [
                        {"type": "Pod", "min": {"cpu": 1}, "max": {"cpu": 2}, "maxLimitRequestRatio": {"cpu": 3}}
                    ]
                }
            ),
            [
                'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = '
                "2.000000"
            ],
        ),
        (
            f"{NAMESPACE}/resourcequotas",
            named_object(spec={"hard": {"pods": "1500m"}}),
            ['spec.hard[pods]: Invalid value: "1500m": must be an integer'],
        ),
        (
            REVISIONS,
            named_object(revision=-1, data={}),
            ["revision: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (CIDRS, named_object(spec={}), ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            CIDRS,
            named_object(spec={"cidrs": ["10.0.0.0/24", "10.0.1.0/24"]}),
            [
                f'{CIDR_SPEC}: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one IP for each IP family, '
                "i.e 192.168.0.0/24 and 2001:db8::/64"
            ],
        ),
        (
            CIDRS,
            named_object(spec={"cidrs": ["10.0.0.1/24"]}),
            ['spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length'],
        ),
        (
            ADDRESSES,
            {"metadata": {"name": "10.0.0.01"}},
            ['metadata.name: Invalid value: "10.0.0.01": must not have leading 0s', "spec.parentRef: Required value"],
        ),
        (
            ADDRESSES,
            {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {"group": "a"}}},
            ["spec.parentRef.resource: Required value", "spec.parentRef.name: Required value"],
        ),
        (
            SLICES,
            named_object(
                addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "z"}] * 9}}]
            ),
            ["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"],
        ),
        (
            "/api/v1/nodes",
            named_object(status={"declaredFeatures": ["B", "A", "a-b"]}),
            [
                'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically',
                'status.declaredFeatures[2]: Invalid value: "a-b": invalid feature name "a-b": must start with an '
                "UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
                "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
            ],
        ),
    ],
)
def test_errors(path: str, value: dict[str, Any], faults: list[str]) -> None:
    async def work(server: ApiServer) -> None:
        assert await server.send_invalid("POST", path, value) == faults

    run_with_server(work)


@pytest.mark.parametrize(
    ("path", "obj", "change", "faults"),
    [
        (
            CIDRS,
            named_object(spec={"cidrs": ["10.0.0.0/24"]}),
            {"spec": {"cidrs": ["10.0.1.0/24"]}},
            ['spec.cidrs[0]: Invalid value: "10.0.1.0/24": field is immutable'],
        ),
        (
            SLICES,
            named_object(addressType="IPv4"),
            {"addressType": "IPv6"},
            ["addressType: Invalid value: null: field is immutable"],
        ),
        (
            REVISIONS,
            named_object(revision=1, data={"a": 1}),
            {"data": {"a": True}},
            ['data: Invalid value: {"a":true}: field is immutable'],
        ),
        (
            f"{NAMESPACE}/resourcequotas",
            named_object(spec={"hard": {"pods": 1}, "scopes": ["BestEffort"]}),
            {"spec": {"scopes": None}},
            ["spec.scopes: Invalid value: null: field is immutable"],
        ),
        (
            "/api/v1/nodes",
            named_object(),
            {"spec": {"externalID": "x"}},
            ["spec.externalID: Forbidden: may not be updated"],
        ),
        (
            "/api/v1/nodes",
            named_object(spec={"providerID": "a"}),
            {"spec": {"providerID": "b"}},
            ["spec.providerID: Invalid value: null: field cannot be modified once set"],
        ),
        (
            "/api/v1/nodes",
            named_object(spec={"providerID": "a"}),
            {"spec": {"providerID": None}},
            ["spec.providerID: Invalid value: null: field cannot be cleared once set"],
        ),
    ],
)
def test_errors_of_changes(path: str, obj: dict[str, Any], change: dict[str, Any], faults: list[str]) -> None:
    async def work(server: ApiServer) -> None:
        await server.make(path, obj)
        assert await server.send_invalid("PATCH", f"{path}/a", change) == faults

    run_with_server(work)


def test_service_cidr_can_be_extended_by_a_second_ip_family() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(CIDRS, named_object(spec={"cidrs": ["10.0.0.0/24"]}))
        changed = await server.change(f"{CIDRS}/a", {"spec": {"cidrs": ["10.0.0.0/24", "fd00::/120"]}})
        assert changed["spec"]["cidrs"] == ["10.0.0.0/24", "fd00::/120"]

    run_with_server(work)


def test_string_data_of_secret_overrides_data() -> None:
    async def work(server: ApiServer) -> None:
        value = named_object(data={"a": encode_base64("old"), "b": encode_base64("kept")}, stringData={"a": "new"})
        created = await server.make(f"{NAMESPACE}/secrets", value)
        assert created["data"] == {"a": encode_base64("new"), "b": encode_base64("kept")}
        assert "stringData" not in created

    run_with_server(work)


def test_events_expire_after_an_hour_in_both_api_groups() -> None:
    clock = VirtualClock()

    async def work(server: ApiServer) -> None:
        pod_reference = {"kind": "Pod", "name": "p", "namespace": "ns"}
        await server.make(f"{NAMESPACE}/events", named_object(involvedObject=pod_reference))
        code, event = await server.send("GET", f"{NEW_EVENTS}/a")
        assert (code, event["regarding"]) == (200, pod_reference)
        await clock.advance(3700)
        assert (await server.send("GET", f"{NAMESPACE}/events/a"))[0] == 404
        assert (await server.send("GET", f"{NEW_EVENTS}/a"))[0] == 404

    run_with_server(work, clock=clock)


def test_core_v1_event_may_have_any_name() -> None:
    async def work(server: ApiServer) -> None:
        value = {"metadata": {"name": "Pod_A.17"}, "involvedObject": {"namespace": "ns"}}
        await server.make(f"{NAMESPACE}/events", value)

    run_with_server(work)


def test_foreground_deletion_removes_event_immediately() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(f"{NAMESPACE}/events", named_object(involvedObject={"namespace": "ns"}))
        await server.send("DELETE", f"{NAMESPACE}/events/a?propagationPolicy=Foreground")
        assert (await server.send("GET", f"{NAMESPACE}/events/a"))[0] == 404

    run_with_server(work)


def test_errors_of_events_v1_name_the_core_resource() -> None:
    async def work(server: ApiServer) -> None:
        _, status = await server.send("GET", f"{NEW_EVENTS}/none")
        assert status["message"] == 'events "none" not found'

    run_with_server(work)


def test_lease_update_requires_current_resource_version() -> None:
    async def work(server: ApiServer) -> None:
        code, lease = await server.send("PUT", f"{LEASES}/a", named_object(spec={"holderIdentity": "x"}))
        assert code == 201
        assert (await server.send("PUT", f"{LEASES}/a", named_object(spec={})))[0] == 422
        lease["spec"]["holderIdentity"] = "y"
        assert (await server.send("PUT", f"{LEASES}/a", lease))[0] == 200
        assert (await server.send("PUT", f"{LEASES}/a", lease))[0] == 409

    run_with_server(work)


def test_limit_range_without_name_gets_a_generated_name() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(f"{NAMESPACE}/limitranges", {"metadata": {}, "spec": {"limits": []}})
        assert len(created["metadata"]["name"]) == 36

    run_with_server(work)


@pytest.mark.parametrize(
    ("spec", "pod_cidr", "pod_cidrs"),
    [
        ({"podCIDR": "10.0.0.0/24"}, "10.0.0.0/24", ["10.0.0.0/24"]),
        ({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, "10.0.0.0/24", ["10.0.0.0/24", "fd00::/64"]),
        ({"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.0.0/24"]}, "10.0.1.0/24", ["10.0.1.0/24"]),
    ],
)
def test_pod_cidr_and_pod_cidrs_of_node_are_synchronized(
    spec: dict[str, Any], pod_cidr: str, pod_cidrs: list[str]
) -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make("/api/v1/nodes", named_object(spec=spec))
        assert (created["spec"]["podCIDR"], created["spec"]["podCIDRs"]) == (pod_cidr, pod_cidrs)

    run_with_server(work)


def test_warnings_of_a_quota() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(f"{NAMESPACE}/resourcequotas", named_object(spec={"hard": {"cpu": 2, "limits.cpu": 1}}))
        assert server.warnings == ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]

    run_with_server(work)
