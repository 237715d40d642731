"""API objects that a pod refers to."""

from typing import Any

import msgspec
import pytest

from sampan.api.semantics.pod_references import config_map_names, referenced_resource, secret_names
from sampan.api.types.core_v1 import PodSpec

SPEC = msgspec.convert(
    {
        "imagePullSecrets": [{"name": "a"}],
        "containers": [
            {
                "name": "c",
                "env": [
                    {"name": "x", "valueFrom": {"secretKeyRef": {"name": "b", "key": "k"}}},
                    {"name": "y", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                ],
                "envFrom": [{"secretRef": {"name": "d"}}, {"configMapRef": {"name": "n"}}],
            }
        ],
        "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "e"}}]}],
        "volumes": [
            {"name": "v", "secret": {"secretName": "f"}},
            {"name": "w", "projected": {"sources": [{"secret": {"name": "g"}}, {"configMap": {"name": "o"}}]}},
            {"name": "x", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "h"}}},
            {"name": "y", "configMap": {"name": "p"}},
            {"name": "z", "iscsi": {"targetPortal": "t", "iqn": "q", "lun": 0, "secretRef": {"name": "j"}}},
        ],
    },
    PodSpec,
)


def test_secret_and_config_map_names() -> None:
    assert sorted(secret_names(SPEC)) == list("abdefghj")
    assert sorted(config_map_names(SPEC)) == list("mnop")


@pytest.mark.parametrize(
    ("spec", "resource"),
    [
        ({}, ""),
        ({"serviceAccountName": "default"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "secrets"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceclaims"),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, ""),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentvolumeclaims"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
            "serviceaccounts (via projected volumes)",
        ),
    ],
)
def test_referenced_resource(spec: dict[str, Any], resource: str) -> None:
    assert referenced_resource(msgspec.convert(spec, PodSpec)) == resource
