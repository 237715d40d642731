"""CustomResourceDefinitions and APIServices as objects: rules that the golden replay does not cover."""

from typing import Any

import pytest

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.every_kind import GOOD
from tests.apiserver.validation_errors import errors_of_change, errors_of_new, messages_of

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
VALID_CRD = GOOD["apiextensions.k8s.io", "CustomResourceDefinition"]
VERSION = VALID_CRD["spec"]["versions"][0]
OTHER = {**VERSION, "name": "v2", "storage": False}
SERVICE = GOOD["apiregistration.k8s.io", "APIService"]


def definition(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    versions_field = {"versions": list(versions)} if versions else {}
    return {**VALID_CRD, "spec": {**VALID_CRD["spec"], **versions_field, **spec}}


COLUMN = {"name": "", "type": "odd", "format": "odd", "jsonPath": "x"}
SCALE = {"specReplicasPath": "spec", "statusReplicasPath": "", "labelSelectorPath": ".x.y"}


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        (
            definition({**VERSION, "additionalPrinterColumns": [COLUMN]}),
            [
                "spec.additionalPrinterColumns[0].name: Required value",
                'spec.additionalPrinterColumns[0].type: Invalid value: "odd": must be one of '
                "boolean,date,integer,number,string",
                'spec.additionalPrinterColumns[0].format: Invalid value: "odd": must be one of '
                "byte,date,date-time,double,float,int32,int64,password",
                'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a simple json path starting '
                "with .",
            ],
        ),
        (
            definition({**VERSION, "subresources": {"scale": SCALE}}, OTHER),
            [
                'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: "spec": must be a '
                "simple json path "
                "starting with .",
                "spec.versions[0].subresources.scale.statusReplicasPath: Required value",
                'spec.versions[0].subresources.scale.labelSelectorPath: Invalid value: ".x.y": should be a json path '
                "under either .spec or .status",
            ],
        ),
        (
            definition({**VERSION, "deprecationWarning": "w"}, {**OTHER, "deprecated": True, "deprecationWarning": ""}),
            [
                'spec.versions[0].deprecationWarning: Invalid value: "w": can only be set for deprecated versions',
                'spec.versions[1].deprecationWarning: Invalid value: "": must not be an empty string',
            ],
        ),
        (
            definition({**VERSION, "selectableFields": [{"jsonPath": ".spec.x"}, {"jsonPath": ".metadata.name"}]}),
            [
                'spec.selectableFields[0].jsonPath: Invalid value: ".spec.x": is an invalid path: does not refer to a '
                "valid field",
                'spec.selectableFields[1].jsonPath: Invalid value: ".metadata.name": is an invalid path: '
                "does not refer to a valid field",
            ],
        ),
        (
            definition(conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"]}}),
            [
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                'spec.conversion.conversionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, '
                "v1beta1",
            ],
        ),
        (
            definition(
                conversion={"strategy": "None", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}}
            ),
            [
                "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to "
                "Webhook",
            ],
        ),
    ],
)
def test_errors_of_new_definitions(value: dict[str, Any], faults: list[str]) -> None:
    assert errors_of_new(DEFINITIONS, value) == faults


def test_stored_version_cannot_be_removed() -> None:
    change = {"spec": {"versions": [{**VERSION, "name": "v2"}]}}
    text = "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a"
    faults = errors_of_change(DEFINITIONS, VALID_CRD, change)
    assert [fault[:80] for fault in faults] == [f'status.storedVersions[0]: Invalid value: "v1": {text}'[:80]]


def test_new_storage_version_is_added_to_stored_versions() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(DEFINITIONS, definition(VERSION, OTHER))
        path = f"{DEFINITIONS}/things.example.com"
        versions = [{**VERSION, "storage": False}, {**OTHER, "storage": True}]
        patched = (await cluster.patch(path, {"spec": {"versions": versions}})).json
        assert (patched["status"]["storedVersions"], patched["metadata"]["generation"]) == (["v1", "v2"], 2)

    run_in_cluster(work)


def test_observed_generations_that_a_client_writes_are_kept() -> None:
    """The feature gate CRDObservedGenerationTracking is on by default."""

    async def work(cluster: Cluster) -> None:
        await cluster.make(DEFINITIONS, VALID_CRD)
        path = f"{DEFINITIONS}/things.example.com"
        condition = {"type": "Example", "status": "True", "observedGeneration": 7}
        await cluster.patch(f"{path}/status", {"status": {"observedGeneration": 6, "conditions": [condition]}})
        patched = (await cluster.patch(path, {"spec": {"preserveUnknownFields": False}})).json
        assert patched["status"]["observedGeneration"] == 6
        assert patched["status"]["conditions"][0]["observedGeneration"] == 7

    run_in_cluster(work)


def test_scope_and_kind_are_immutable_once_established() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(DEFINITIONS, VALID_CRD)
        path = f"{DEFINITIONS}/things.example.com"
        change = {"spec": {"scope": "Cluster", "names": {"kind": "Item", "listKind": "ItemList"}}}
        assert (await cluster.patch(path, change)).code == 200
        condition = {"type": "Established", "status": "True", "lastTransitionTime": None}
        assert (await cluster.patch(f"{path}/status", {"status": {"conditions": [condition]}})).code == 200
        change = {"spec": {"scope": "Namespaced", "names": {"kind": "Thing", "listKind": "ThingList"}}}
        assert messages_of(await cluster.patch(path, change)) == [
            'spec.scope: Invalid value: "Namespaced": field is immutable',
            'spec.names.kind: Invalid value: "Thing": field is immutable',
        ]
        other_names = {"singular": "entry", "shortNames": ["e"], "listKind": "EntryList"}
        assert (await cluster.patch(path, {"spec": {"names": other_names}})).code == 200

    run_in_cluster(work)


def test_group_and_plural_are_immutable_before_a_definition_is_established() -> None:
    change = {"spec": {"group": "example.org", "names": {"plural": "items"}}}
    assert errors_of_change(DEFINITIONS, VALID_CRD, change) == [
        'spec.group: Invalid value: "example.org": field is immutable',
        'spec.names.plural: Invalid value: "items": field is immutable',
    ]


def test_unknown_formats_and_sets_of_objects_get_a_warning() -> None:
    items = {"type": "array", "maxItems": 1, "items": {"type": "string", "maxLength": 1}}
    properties = {
        "a": {"type": "string", "format": "odd"},
        "b": {"type": "array", "x-kubernetes-list-type": "set", "items": {**items, "x-kubernetes-list-type": "atomic"}},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}

    async def work(cluster: Cluster) -> None:
        value = definition({**VERSION, "schema": schema})
        assert await cluster.collect_warnings(DEFINITIONS, value) == [
            'unrecognized format "odd"',
            'x-kubernetes-list-type: set for items of type "array" is not supported by server-side apply or CEL '
            "validation rules",
        ]

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("annotation", "start"),
    [
        ("https://example.com/approval", ""),
        ("unapproved, a test", ""),
        ("yes", 'metadata.annotations[api-approved.kubernetes.io]: Invalid value: "yes": protected groups must have'),
    ],
)
def test_protected_api_groups_require_approval_annotation(annotation: str, start: str) -> None:
    metadata = {"name": "things.x.k8s.io", "annotations": {"api-approved.kubernetes.io": annotation}}
    faults = errors_of_new(DEFINITIONS, {**definition(group="x.k8s.io"), "metadata": metadata})
    assert [fault[: len(start)] for fault in faults] == ([start] if start else [])


def test_api_service_ca_bundle_error_and_table_cells() -> None:
    assert errors_of_new(SERVICES, {**SERVICE, "spec": {**SERVICE["spec"], "caBundle": "aGk="}}) == [
        'spec.caBundle: Invalid value: "2 bytes": local APIServices may not have a caBundle'
    ]

    async def work(cluster: Cluster) -> None:
        await cluster.make(SERVICES, SERVICE)
        assert (await cluster.get_cells(SERVICES))[0][:3] == ["v1.example.org", "Local", "True"]
        condition = {"type": "Available", "status": "False", "reason": "Gone"}
        await cluster.patch(f"{SERVICES}/v1.example.org/status", {"status": {"conditions": [condition]}})
        assert (await cluster.get_cells(SERVICES))[0][2] == "False (Gone)"

    run_in_cluster(work)


def test_table_cells() -> None:
    value = definition({**VERSION, "name": "v1beta1", "storage": False}, VERSION, {**OTHER, "served": False})

    async def work(cluster: Cluster) -> None:
        created = await cluster.make(DEFINITIONS, value)
        cells = [value["metadata"]["name"], value["spec"]["scope"], "v1(storage),v1beta1"]
        cells += [created["metadata"]["creationTimestamp"], value["spec"]["group"], value["spec"]["names"]["kind"]]
        assert await cluster.get_cells(DEFINITIONS) == [[*cells, "", False]]

    run_in_cluster(work)
