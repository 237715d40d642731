"""Which fields a path leaves to others."""

from typing import Any

import pytest

from sampan.api.scheme import builtin_scheme
from sampan.apiserver.fieldmanager import reset_fields
from sampan.machinery.apply import Only

ALL: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {}},
    "f:spec": {"f:x": {}},
    "f:status": {"f:conditions": {}, "f:y": {}},
}


@pytest.mark.parametrize(
    ("group", "version", "kind", "subresource", "kept"),
    [
        ("", "v1", "ConfigMap", "", ["metadata", "spec", "status"]),
        ("", "v1", "Pod", "", ["metadata", "spec"]),
        ("", "v1", "Pod", "status", ["metadata", "status"]),
        ("", "v1", "Node", "status", ["metadata", "status"]),
        ("", "v1", "Namespace", "finalize", ["metadata", "spec"]),
        ("apps", "v1", "Deployment", "status", ["metadata", "status"]),
        ("apps", "v1", "Deployment", "scale", ["metadata", "spec", "status"]),
        ("storage.k8s.io", "v1", "VolumeAttachment", "status", ["status"]),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest", "", ["metadata"]),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest", "approval", ["metadata", "status"]),
    ],
)
def test_paths(group: str, version: str, kind: str, subresource: str, kept: list[str]) -> None:
    resource = builtin_scheme().by_kind(group, version, kind)
    assert resource is not None
    found = reset_fields.reset_filter(resource, subresource).kept(ALL)
    assert [element.removeprefix("f:") for element in found] == kept


def test_parts_of_metadata_and_status() -> None:
    scheme = builtin_scheme()
    pods, deployments = scheme.by_kind("", "v1", "Pod"), scheme.by_kind("apps", "v1", "Deployment")
    requests = scheme.by_kind("certificates.k8s.io", "v1", "CertificateSigningRequest")
    assert pods is not None
    assert deployments is not None
    assert requests is not None
    assert reset_fields.reset_filter(pods, "status").kept(ALL)["f:metadata"] == {"f:labels": {"f:a": {}}}
    assert reset_fields.reset_filter(deployments, "status").kept(ALL)["f:metadata"] == {"f:ownerReferences": {}}
    assert reset_fields.reset_filter(requests, "status").kept(ALL)["f:status"] == {"f:y": {}}


def test_a_resize_owns_resources_only() -> None:
    pods = builtin_scheme().by_kind("", "v1", "Pod")
    assert pods is not None
    found = reset_fields.reset_filter(pods, "resize")
    assert isinstance(found, Only)
    item = 'k:{"name":"c"}'
    fields: dict[str, Any] = {
        "f:spec": {"f:containers": {item: {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}}, "f:nodeName": {}}
    }
    assert found.kept(fields) == {"f:spec": {"f:containers": {item: {".": {}, "f:resources": {"f:limits": {}}}}}}
