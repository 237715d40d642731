"""Kinds of storage.k8s.io: rules that the golden replay does not cover."""

from typing import Any

import pytest

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.validation_errors import errors_of_change, errors_of_new, named_object

STORAGE = "/apis/storage.k8s.io/v1"
CLASSES, ATTRIBUTES = f"{STORAGE}/storageclasses", f"{STORAGE}/volumeattributesclasses"
DRIVERS, NODES, ATTACHMENTS = f"{STORAGE}/csidrivers", f"{STORAGE}/csinodes", f"{STORAGE}/volumeattachments"
CAPACITIES = f"{STORAGE}/namespaces/ns/csistoragecapacities"
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def driver(**fields: Any) -> dict[str, Any]:
    return named_object(spec={"drivers": [{"name": "d.example.com", "nodeID": "i", **fields}]})


def attachment(source: dict[str, Any]) -> dict[str, Any]:
    return named_object(spec={"attacher": "d.example.com", "nodeName": "n", "source": source})


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        (
            CLASSES,
            named_object(provisioner="p", parameters={f"k{index}": "v" for index in range(513)}),
            ["parameters: Too long: may not be more than 512 bytes"],
        ),
        (
            CLASSES,
            named_object(provisioner="p", parameters={"k": "v" * 300_000}),
            ["parameters: Too long: may not be more than 262144 bytes"],
        ),
        (
            ATTRIBUTES,
            named_object(),
            [
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        ),
        (
            DRIVERS,
            named_object(
                spec={
                    "fsGroupPolicy": "Odd",
                    "volumeLifecycleModes": ["Odd"],
                    "nodeAllocatableUpdatePeriodSeconds": 9,
                    "tokenRequests": [
                        {"audience": "a", "expirationSeconds": 599},
                        {"audience": "a"},
                        {"audience": "b", "expirationSeconds": 2**32 + 1},
                    ],
                }
            ),
            [
                'spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", '
                '"ReadWriteOnceWithFSType"',
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 "
                "minutes",
                'spec.tokenRequests[1].audience: Duplicate value: "a"',
                "spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger "
                "than 2^32 seconds",
                'spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral"',
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal "
                "to 10 seconds",
            ],
        ),
        (
            DRIVERS,
            named_object(spec={"serviceAccountTokenInSecrets": False}),
            [
                "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no "
                "tokenRequests are specified"
            ],
        ),
        (
            NODES,
            driver(name="", nodeID="", allocatable={"count": -1}, topologyKeys=["a", "a", ""]),
            [
                "spec.drivers[0].name: Required value",
                "spec.drivers[0].nodeID: Required value",
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                'spec.drivers[0]: Duplicate value: "a"',
                "spec.drivers[0]: Required value",
                'spec.drivers[0]: Invalid value: "": name part must be non-empty',
                f'spec.drivers[0]: Invalid value: "": {NAME_PART}',
            ],
        ),
        (
            NODES,
            driver(nodeID="i" * 257),
            [f'spec.drivers[0].nodeID: Invalid value: "{"i" * 257}": must be 256 characters or less'],
        ),
        (
            CAPACITIES,
            named_object(
                storageClassName="c", capacity="-1", nodeTopology={"matchExpressions": [{"key": "a", "operator": "In"}]}
            ),
            [
                "nodeTopology.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
                "'NotIn'",
                'capacity: Invalid value: "-1": must be greater than or equal to 0',
            ],
        ),
        (
            ATTACHMENTS,
            attachment({}),
            ["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
        ),
        (
            ATTACHMENTS,
            attachment({"persistentVolumeName": "v", "inlineVolumeSpec": {}}),
            ["spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
        ),
        (
            ATTACHMENTS,
            attachment(
                {
                    "inlineVolumeSpec": {
                        "capacity": {"storage": "1"},
                        "claimRef": {},
                        "hostPath": {"path": "/x"},
                        "persistentVolumeReclaimPolicy": "Delete",
                        "nodeAffinity": {},
                        "storageClassName": "c",
                        "volumeMode": "Block",
                    }
                }
            ),
            [
                f"spec.source.inlineVolumeSpec.{text}"
                for text in (
                    "claimRef: Forbidden: may not be specified in the context of inline volumes",
                    "capacity: Forbidden: may not be specified in the context of inline volumes",
                    "csi: Required value: has to be specified in the context of inline volumes",
                    "accessModes: Required value",
                    "persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
                    "nodeAffinity: Forbidden: may not be specified in the context of inline volumes",
                    "storageClassName: Forbidden: may not be specified in the context of inline volumes",
                    "volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline "
                    "volumes",
                )
            ],
        ),
    ],
)
def test_errors_of_new_objects(path: str, value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(path, value) == faults


@pytest.mark.parametrize(
    ("path", "value", "change", "faults"),
    [
        (
            ATTRIBUTES,
            named_object(driverName="d", parameters={"a": "b"}),
            {"driverName": "e", "parameters": {"a": "c"}},
            [
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ],
        ),
        (
            NODES,
            driver(),
            {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "other", "topologyKeys": None}]}},
            [
                'spec.drivers: Invalid value: {"Name":"d.example.com","NodeID":"other","TopologyKeys":null,'
                '"Allocatable":null}: field is immutable'
            ],
        ),
        (NODES, driver(), driver(allocatable={"count": 3}), []),
        (
            DRIVERS,
            named_object(spec={}),
            {"spec": {"attachRequired": False}},
            ["spec.attachedRequired: Invalid value: false: field is immutable"],
        ),
        (
            CAPACITIES,
            named_object(storageClassName="c", nodeTopology={"matchLabels": {"a": "b"}}),
            {"storageClassName": "d", "nodeTopology": {"matchLabels": {"a": "c"}}},
            [
                'nodeTopology: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
                'storageClassName: Invalid value: "d": field is immutable',
            ],
        ),
    ],
)
def test_errors_of_changes(path: str, value: dict[str, Any], change: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_change(path, value, change) == faults


def test_volume_attachment_status_is_validated_and_written_separately() -> None:
    value = attachment({"persistentVolumeName": "v"})
    invalid_status = {"status": {"attachError": {"message": "m" * 1025, "errorCode": -1}}}
    assert errors_of_change(ATTACHMENTS, value, invalid_status, "/status") == [
        "status.attachError.message: Too long: may not be more than 1024 bytes",
        "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    ]

    async def work(cluster: Cluster) -> None:
        await cluster.make(ATTACHMENTS, value)
        change = {"metadata": {"labels": {"l": "m"}}, "spec": {"nodeName": "x"}, "status": {"attached": True}}
        patched = (await cluster.patch(f"{ATTACHMENTS}/a/status", change)).json
        assert (patched["spec"]["nodeName"], patched["status"]) == ("n", {"attached": True})
        assert "labels" not in patched["metadata"]

    run_in_cluster(work)


def test_generation_of_csi_driver_starts_with_the_first_update() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.make(DRIVERS, named_object(spec={}))
        assert "generation" not in created["metadata"]
        changed = (await cluster.patch(f"{DRIVERS}/a", {"spec": {"requiresRepublish": True}})).json
        assert changed["metadata"]["generation"] == 1

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("path", "value", "warnings"),
    [
        (
            CLASSES,
            named_object(
                provisioner="p",
                allowedTopologies=[{"matchLabelExpressions": [{"key": "beta.kubernetes.io/os", "values": ["x"]}]}],
            ),
            [
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use "
                '"kubernetes.io/os" instead'
            ],
        ),
        (
            DRIVERS,
            named_object(spec={"tokenRequests": [{"audience": "a"}]}),
            [
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
                "possible logging of tokens in volume attributes"
            ],
        ),
        (
            CAPACITIES,
            named_object(storageClassName="c", nodeTopology={"matchLabels": {"beta.kubernetes.io/arch": "x"}}),
            [
                "nodeTopology.matchLabels.beta.kubernetes.io/arch: deprecated since v1.14; use "
                '"kubernetes.io/arch" instead'
            ],
        ),
    ],
)
def test_warnings(path: str, value: dict[str, Any], warnings: list[str]) -> None:
    async def work(cluster: Cluster) -> None:
        assert await cluster.collect_warnings(path, value) == warnings

    run_in_cluster(work)


def test_the_default_class_is_marked_in_the_table_of_a_list_only() -> None:
    async def work(cluster: Cluster) -> None:
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        for name in ("b", "a"):
            await cluster.make(CLASSES, {"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"})
        await cluster.make(CLASSES, {"metadata": {"name": "c"}, "provisioner": "p"})
        rows = await cluster.get_cells(CLASSES)
        assert rows[0][:5] == ["a (default)", "p", "Delete", "Immediate", False]
        assert [row[0] for row in rows[1:]] == ["b", "c"]
        assert (await cluster.get_cells(f"{CLASSES}/a"))[0][0] == "a"

    run_in_cluster(work)
