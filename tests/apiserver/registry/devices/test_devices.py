"""Validation, defaults and status of ResourceClaims, DeviceClasses and ResourceSlices."""

from typing import Any

import pytest

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.validation_errors import errors_of_change, errors_of_new, messages_of, named_object

RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS, TEMPLATES = f"{RESOURCE}/namespaces/ns/resourceclaims", f"{RESOURCE}/namespaces/ns/resourceclaimtemplates"
CLASSES, SLICES = f"{RESOURCE}/deviceclasses", f"{RESOURCE}/resourceslices"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
FIRST_AVAILABLE = {"name": "e", "firstAvailable": [{"name": "one", "deviceClassName": "gpu"}]}
NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
UID = "0f95ccb3-b19c-418f-83ce-eebe340bf181"


def claim(*requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    return named_object(spec={"devices": {"requests": list(requests) or [REQUEST], **devices}})


def claim_with_exact_request(**fields: Any) -> dict[str, Any]:
    return claim({"name": "r", "exactly": {"deviceClassName": "gpu", **fields}})


def resource_slice(*requests: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pool = {"name": "p", "resourceSliceCount": 1}
    return named_object(
        spec={"driver": "x.example.com", "pool": pool, "nodeName": "n", "devices": list(requests), **spec}
    )


def slice_with_policy(policy: dict[str, Any]) -> dict[str, Any]:
    return resource_slice(
        {"name": "d", "allowMultipleAllocations": True, "capacity": {"m": {"value": "10", "requestPolicy": policy}}}
    )


AT, DEVICE = "spec.devices.requests[0].exactly", "spec.devices[0]"
POLICY = f"{DEVICE}.capacity[m].requestPolicy"


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        (
            CLAIMS,
            claim(REQUEST, FIRST_AVAILABLE, constraints=[{"requests": ["r", "e/one"], "distinctAttribute": "x.io/a"}]),
            [],
        ),
        (
            CLAIMS,
            claim(FIRST_AVAILABLE, constraints=[{"requests": ["e/two"], "matchAttribute": "a"}]),
            [
                f'spec.devices.constraints[0].requests[0]: Invalid value: "e/two": {NO_REQUEST}',
                'spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name '
                "must be a domain "
                "and a name separated by a slash",
            ],
        ),
        (
            CLAIMS,
            claim({**REQUEST, **FIRST_AVAILABLE, "name": "r"}, REQUEST),
            [
                "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or "
                "`firstAvailable` is required, "
                "but multiple fields are set",
                'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"gpu",'
                '"allocationMode":"ExactCount","count":1}}',
            ],
        ),
        (
            CLAIMS,
            claim(*({**REQUEST, "name": f"r{index}"} for index in range(33))),
            ["spec.devices.requests: Too many: 33: must have at most 32 items"],
        ),
        (
            CLAIMS,
            claim_with_exact_request(allocationMode="All", count=2),
            [f"{AT}.count: Invalid value: 2: must not be specified when allocationMode is 'All'"],
        ),
        (CLAIMS, claim_with_exact_request(count=-1), [f"{AT}.count: Invalid value: -1: must be greater than zero"]),
        (
            CLAIMS,
            claim_with_exact_request(
                selectors=[{}, {"cel": {"expression": "x" * 10241}}],
                tolerations=[{"operator": "Exists", "value": "v", "effect": "Odd"}],
            ),
            [
                f"{AT}.selectors[0].cel: Required value",
                f"{AT}.selectors[1].cel.expression: Too long: may not be more than 10240 bytes",
                f'{AT}.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`',
                f'{AT}.tolerations[0].effect: Unsupported value: "Odd": supported values: "NoExecute", '
                '"NoSchedule", "None"',
            ],
        ),
        (
            CLASSES,
            named_object(
                spec={"extendedResourceName": "cpu", "config": [{"opaque": {"driver": "x.io", "parameters": [1]}}, {}]}
            ),
            [
                'spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
                "spec.config[1].opaque: Required value",
                'spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, such as '
                "'example.com/my-prop'",
            ],
        ),
        (
            TEMPLATES,
            named_object(spec={"metadata": {"name": "n"}, "spec": {"devices": {"requests": [REQUEST]}}}),
            ["spec.metadata.name: Forbidden: cannot be set"],
        ),
        (
            SLICES,
            resource_slice({"name": "d", "nodeName": "n"}),
            [
                f"{DEVICE}: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ],
        ),
        (
            SLICES,
            resource_slice({"name": "d"}, nodeName=None, perDeviceNodeSelection=True),
            [
                f"{DEVICE}: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ],
        ),
        (
            SLICES,
            resource_slice(sharedCounters=[{"name": "c", "counters": {"x": {"value": "1"}}}, {"name": "c"}]),
            [
                'spec.sharedCounters[1]: Duplicate value: {"name":"c"}',
                "spec.sharedCounters[1].counters: Required value",
            ],
        ),
        (SLICES, slice_with_policy({"default": "4", "validRange": {"min": "2", "step": "2", "max": "8"}}), []),
        (
            SLICES,
            slice_with_policy({"default": "3", "validRange": {"min": "2", "step": "2", "max": "12"}}),
            [
                f'{POLICY}.validRange.max: Invalid value: "12": max is larger than capacity value: 10',
                f'{POLICY}.validRange.step: Invalid value: "3": value is not a multiple of a given step (2) from (2)',
            ],
        ),
        (
            SLICES,
            slice_with_policy({"default": "1", "validRange": {"min": "2", "step": "0"}}),
            [
                f'{POLICY}.validRange.default: Invalid value: "1": default is less than min: 2',
                f'{POLICY}.validRange.step: Invalid value: "0": must be greater than zero',
            ],
        ),
        (
            SLICES,
            slice_with_policy({"default": "2", "validRange": {"min": "-2", "step": "2"}}),
            [f'{POLICY}.validRange.min: Invalid value: "-2": must be greater than or equal to 0'],
        ),
        (
            SLICES,
            slice_with_policy({"default": "3", "validValues": ["4", "2", "20"]}),
            [
                f'{POLICY}.validValues[1]: Invalid value: "2": values must be sorted in ascending order',
                f'{POLICY}.validValues[2]: Invalid value: "20": option is larger than capacity value: 10',
                f'{POLICY}.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
            ],
        ),
    ],
)
def test_errors_of_new_objects(path: str, value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(path, value) == faults


def test_defaults() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.make(CLAIMS, claim_with_exact_request(tolerations=[{"key": "k"}]))
        assert created["spec"]["devices"]["requests"][0]["exactly"] == {
            "allocationMode": "ExactCount",
            "count": 1,
            "deviceClassName": "gpu",
            "tolerations": [{"key": "k", "operator": "Equal"}],
        }
        tainted = await cluster.make(
            SLICES, resource_slice({"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]})
        )
        assert tainted["spec"]["devices"][0]["taints"][0]["timeAdded"] == tainted["metadata"]["creationTimestamp"]

    run_in_cluster(work)


def test_spec_of_claim_is_immutable() -> None:
    change = {"spec": {"devices": {"requests": [{**REQUEST, "name": "s"}]}}}
    (message,) = errors_of_change(CLAIMS, claim(), change)
    assert message == "spec: Invalid value: null: field is immutable"


@pytest.mark.parametrize("value", [True, "1"])
def test_change_of_type_or_key_order_in_claim_parameters_is_rejected(value: Any) -> None:
    def claim_with_parameter(value: Any) -> dict[str, Any]:
        return claim(config=[{"opaque": {"driver": "x.example.com", "parameters": {"a": value, "b": 2}}}])

    (message,) = errors_of_change(CLAIMS, claim_with_parameter(1), {"spec": claim_with_parameter(value)["spec"]})
    assert message.endswith(": field is immutable")
    other_order = {"driver": "x.example.com", "parameters": {"b": 2, "a": 1}}
    (message,) = errors_of_change(
        CLAIMS, claim_with_parameter(1), {"spec": {"devices": {"config": [{"opaque": other_order}]}}}
    )
    assert message.endswith(": field is immutable")


@pytest.mark.parametrize(
    ("expression", "detail"),
    [
        ('device.attributes["x.io"].model == "a" && device.capacity["x.io"].m.isGreaterThan(quantity("1Gi"))', None),
        ('has(device.attributes["x.io"].on) && device.attributes["x.io"].on', None),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            "device.colour",
            "compilation failed: ERROR: <input>:1:7: undefined field 'colour'\\n | device.colour\\n | ......^",
        ),
    ],
)
def test_selector_expressions_are_type_checked(expression: str, detail: str | None) -> None:
    at, value = "spec.selectors[0].cel.expression", expression.replace('"', '\\"')
    faults = [] if detail is None else [f'{at}: Invalid value: "{value}": {detail}']
    device_class = named_object(spec={"selectors": [{"cel": {"expression": expression}}]})
    assert [message.replace("\n", "\\n") for message in errors_of_new(CLASSES, device_class)] == faults


@pytest.mark.parametrize(
    "expression",
    [
        '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * 7 + '.contains("b")',
        '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * 10 + '.contains("b")',
        "".join(f"cel.bind(v{at}, {f'v{at - 1} + v{at - 1}' if at else repr('aaaa')}, " for at in range(40))
        + "v39.contains('b')"
        + ")" * 40,
        "lists.range(1000).all(a, lists.range(1000).all(b, a == b))",
    ],
    ids=["replace chained 7 times", "replace chained 10 times", "bind doubled 40 times", "nested loops"],
)
def test_selector_above_the_cost_limit_is_rejected(expression: str) -> None:
    selectors = [{"cel": {"expression": expression}}]
    words = "cel.expression: Forbidden: too complex, exceeds cost limit"
    assert errors_of_new(CLASSES, named_object(spec={"selectors": selectors})) == [f"spec.selectors[0].{words}"]
    assert errors_of_new(CLAIMS, claim_with_exact_request(selectors=selectors)) == [f"{AT}.selectors[0].{words}"]


def test_admin_access_requires_label_on_namespace() -> None:
    async def work(cluster: Cluster) -> None:
        label = "resource.kubernetes.io/admin-access"
        assert messages_of(await cluster.send("POST", CLAIMS, claim_with_exact_request(adminAccess=True))) == [
            "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
            f"`{label}: true` label "
            "on the containing namespace"
        ]
        await cluster.patch("/api/v1/namespaces/ns", {"metadata": {"labels": {label: "true"}}})
        await cluster.make(CLAIMS, claim_with_exact_request(adminAccess=True))

    run_in_cluster(work)


RESULT = {"request": "r", "driver": "x.example.com", "pool": "p", "device": "d"}
STATUS = {"driver": "x.example.com", "pool": "p", "device": "d", "conditions": None}
USER = {"resource": "pods", "name": "a", "uid": UID}


def status_with_allocation(*results: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"status": {"allocation": {"devices": {"results": list(results) or [RESULT]}}, **status}}


@pytest.mark.parametrize(
    ("status", "faults"),
    [
        (status_with_allocation(reservedFor=[USER], devices=[{**STATUS, "data": {"a": 1}}]), []),
        (
            {"status": {"reservedFor": [USER]}},
            ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        ),
        (
            status_with_allocation({**RESULT, "request": "x", "shareID": UID.upper(), "bindingConditions": ["a"]}),
            [
                f'status.allocation.devices.results[0].request: Invalid value: "x": {NO_REQUEST}',
                "status.allocation.devices.results[0].bindingFailureConditions: Invalid value: null: "
                "bindingFailureConditions are required to use bindingConditions",
                f'status.allocation.devices.results[0].shareID: Invalid value: "{UID.upper()}": must be a lowercase '
                "UUID in 8-4-4-4-12 format",
            ],
        ),
        (
            status_with_allocation(devices=[{**STATUS, "device": "other", "networkData": {"ips": ["10.0.0.1"]}}]),
            [
                'status.devices[0]: Invalid value: "x.example.com/p/other": must be an allocated device in the claim',
                'status.devices[0].networkData.ips[0]: Invalid value: "10.0.0.1": must be a valid address '
                "in CIDR form, "
                "(e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            ],
        ),
        (
            status_with_allocation({**RESULT, "adminAccess": True}),
            [
                "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices requires the "
                "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
            ],
        ),
    ],
)
def test_errors_of_claim_status(status: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_change(CLAIMS, claim(), status, "/status") == faults


def test_statuses_of_devices_are_dropped_with_the_allocation() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(CLAIMS, claim())
        assert (await cluster.get_cells(CLAIMS))[0][:2] == ["a", "pending"]
        await cluster.patch(f"{CLAIMS}/a/status", status_with_allocation(devices=[STATUS], reservedFor=[USER]))
        assert (await cluster.get_cells(CLAIMS))[0][1] == "allocated,reserved"
        change = {"status": {"allocation": None, "reservedFor": None}}
        patched = (await cluster.patch(f"{CLAIMS}/a/status", change)).json
        assert patched["status"] == {}

    run_in_cluster(work)


def test_a_driver_name_in_capitals_gets_a_warning() -> None:
    async def work(cluster: Cluster) -> None:
        assert await cluster.collect_warnings(SLICES, resource_slice(driver="X.example.com")) == [
            'spec.driver: driver names should be lowercase; "X.example.com" contains uppercase characters'
        ]

    run_in_cluster(work)
