"""PersistentVolumes: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import PersistentVolume
from sampan.apiserver.registry.kinds import persistentvolumes
from tests.apiserver.registry.kind_rules import Rules

BASE = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
HOST = {"hostPath": {"path": "/x"}}
RULES = Rules(persistentvolumes.BEHAVIOR, PersistentVolume, BASE)
AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}}
TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)
IQN = "iqn.2001-04.com.example:x"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({"glusterfs": {}}, ["spec.glusterfs.endpoints: Required value", "spec.glusterfs.path: Required value"]),
        (
            {"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
            [
                'spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a '
                "valid namespace name"
            ],
        ),
        (
            {"iscsi": {"targetPortal": "p" * 64, "iqn": "odd", "lun": 256, "initiatorName": "iqn.x"}},
            [
                f'spec.iscsi.targetportal: Invalid value: "{"p" * 64}": {TOO_LONG}',
                'spec.iscsi.iqn: Invalid value: "odd": must be valid format',
                "spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                'spec.iscsi.initiatorname: Invalid value: "iqn.x": must be valid format',
            ],
        ),
        (
            {"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0, "chapAuthSession": True}},
            ["spec.iscsi.secretRef: Required value"],
        ),
        (
            {"cinder": {"volumeID": "", "secretRef": {}}},
            [
                "spec.cinder.volumeID: Required value",
                "spec.cinder.secretRef.name: Required value",
                "spec.cinder.secretRef.namespace: Required value",
            ],
        ),
        (
            {"azureFile": {"secretName": "", "shareName": "s", "secretNamespace": ""}},
            ["spec.azureFile.secretName: Required value", "spec.azureFile.secretNamespace: Required value"],
        ),
        (
            {"storageos": {"volumeName": "v", "secretRef": {"name": "s"}}},
            ["spec.storageos.secretRef.namespace: Required value"],
        ),
        (
            {"local": {"path": "../x"}, "nodeAffinity": AFFINITY},
            ["spec.local.path: Invalid value: \"../x\": must not contain '..'"],
        ),
        ({"local": {}, "nodeAffinity": AFFINITY}, ["spec.local.path: Required value"]),
        (
            {**HOST, "nodeAffinity": {}},
            ["spec.nodeAffinity.required: Required value: must specify required node constraints"],
        ),
        ({**HOST, "cephfs": {"monitors": ["m"]}}, ["spec.cephFS: Forbidden: may not specify more than 1 volume type"]),
        (
            {**HOST, "flexVolume": {"driver": ""}},
            ["spec.flexVolume.driver: Required value"],
        ),
        (
            {**HOST, "capacity": {"storage": "-1", "x": "1"}},
            [
                'spec.capacity: Unsupported value: {"storage":"-1","x":"1"}: supported values: "storage"',
                "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                'spec.capacity[storage]: Invalid value: "-1": must be greater than zero',
            ],
        ),
        (
            {**HOST, "volumeAttributesClassName": ""},
            [
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
        (
            {"csi": {"driver": "", "nodePublishSecretRef": {"name": "S", "namespace": ""}}},
            [
                "spec.csi.driver: Required value",
                "spec.csi.volumeHandle: Required value",
                'spec.csi.nodePublishSecretRef.name: Invalid value: "S": a lowercase RFC 1123 subdomain '
                "must consist of "
                "lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
                "(e.g. 'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.csi.nodePublishSecretRef.namespace: Required value",
            ],
        ),
    ],
)
def test_errors_of_new_objects(spec: dict[str, Any], faults: list[str]) -> None:
    assert RULES.faults(spec) == faults


@pytest.mark.parametrize(
    ("source", "defaults"),
    [
        ({"rbd": {"monitors": ["m"], "image": "i"}}, {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ({"scaleIO": {"gateway": "g", "system": "s"}}, {"storageMode": "ThinProvisioned", "fsType": "xfs"}),
        ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, {"cachingMode": "ReadWrite", "kind": "Shared"}),
    ],
)
def test_volume_source_defaults(source: dict[str, Any], defaults: dict[str, Any]) -> None:
    volume_source = getattr(RULES.create(source).spec, next(iter(source)))
    assert {field: getattr(volume_source, field) for field in defaults} == defaults


def test_mount_options_annotation_is_forbidden_for_unsupported_sources() -> None:
    key = "volume.beta.kubernetes.io/mount-options"
    assert RULES.faults({"nfs": {"server": "s", "path": "/x"}}, annotations={key: "ro"}) == []
    assert RULES.faults(HOST, annotations={key: "ro"}) == [
        f"metadata.annotations.{key}: Forbidden: may not specify mount options for this volume type"
    ]


def test_deprecated_fields_get_a_warning() -> None:
    key = "volume.beta.kubernetes.io/storage-class"
    spec = {"glusterfs": {"endpoints": "e", "path": "p"}, "persistentVolumeReclaimPolicy": "Recycle"}
    assert RULES.warnings(spec, annotations={key: "c"}) == [
        f'metadata.annotations[{key}]: deprecated since v1.8; use "storageClassName" attribute instead',
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, "
        "the recommended approach "
        "is to use dynamic provisioning.",
        "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+",
    ]


def test_beta_topology_labels_in_node_affinity_can_be_replaced_by_ga_labels() -> None:
    def with_affinity_to(key: str) -> dict[str, Any]:
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["z"]}]}]
        return {**HOST, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}

    old = RULES.create(with_affinity_to("failure-domain.beta.kubernetes.io/zone"))
    assert RULES.update(old, with_affinity_to("topology.kubernetes.io/zone"))[1] == []
    assert len(RULES.update(old, with_affinity_to("topology.kubernetes.io/region"))[1]) == 1


def test_controller_expand_secret_can_be_added_later() -> None:
    csi = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
    secret = {"controllerExpandSecretRef": {"name": "s", "namespace": "n"}}
    assert RULES.update(RULES.create(csi), {"csi": {**csi["csi"], **secret}})[1] == []


def test_last_phase_transition_time_changes_only_with_the_phase() -> None:
    old = RULES.create(HOST)
    old.status.lastPhaseTransitionTime = "2020-01-01T00:00:00Z"
    same, _ = RULES.update_status(old, {"phase": "Pending", "message": "m"})
    assert same.status.lastPhaseTransitionTime == "2020-01-01T00:00:00Z"
    other, _ = RULES.update_status(old, {"phase": "Bound"})
    assert other.status.lastPhaseTransitionTime == "2023-11-14T22:13:20Z"
    updated, _ = RULES.update_status(old, {"phase": "Bound", "lastPhaseTransitionTime": "2021-01-01T00:00:00Z"})
    assert updated.status.lastPhaseTransitionTime == "2021-01-01T00:00:00Z"


def test_table_cells() -> None:
    claim = {"claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s"}
    volume = RULES.create({**HOST, **claim, "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"]})
    assert RULES.cells(volume) == [
        "a",
        "1Gi",
        "RWO,RWX",
        "Retain",
        "Pending",
        "n/c",
        "s",
        "<unset>",
        "",
        "0s",
        "Filesystem",
    ]
    volume.metadata.deletionTimestamp = "2023-11-14T22:13:20Z"
    assert RULES.cells(volume)[4] == "Terminating"
