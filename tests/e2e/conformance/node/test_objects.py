"""Conformance tests of sig-node for API objects. The first paragraph of a docstring is the official test name."""

from typing import Any

import pytest

from tests.e2e.conformance.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, Value, contains, version_of
from tests.e2e.conformance.operations import check_api_operations, check_discovery


def test_config_map_lifecycle(api: Api) -> None:
    """[sig-node] ConfigMap should run through a ConfigMap lifecycle [Conformance]"""
    maps, mine = api.for_resource("configmaps"), f"test-configmap-static={api.namespace}"
    maps.create("other")
    maps.create("test", {"test-configmap-static": api.namespace}, data={"valueName": "value"})
    got = maps.get("test")
    assert got["data"] == {"valueName": "value"}
    patch = {"metadata": {"labels": {"test-configmap": "patched"}}, "data": {"valueName": "value1"}}
    assert version_of(maps.patch("test", patch, content=STRATEGIC)) > version_of(got)
    (config_map,) = api.get(maps.all_namespaces_path, labelSelector=f"test-configmap=patched,{mine}")["items"]
    assert (config_map["metadata"]["name"], config_map["metadata"]["namespace"]) == ("test", api.namespace)
    assert config_map["data"] == {"valueName": "value1"}
    maps.delete_all(mine)
    assert maps.names(mine) == []
    assert "other" in maps.names()


def lease_spec(holder: str, seconds: int, transitions: int) -> Value:
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": f"0001-01-01T00:00:{seconds:02}.000000Z",
        "renewTime": f"0001-01-01T00:01:{seconds:02}.000000Z",
        "leaseTransitions": transitions,
    }


def test_lease_api(api: Api) -> None:
    """[sig-node] Lease lease API should be available [Conformance]"""
    leases, spec = api.for_resource("leases", "coordination.k8s.io/v1"), lease_spec("holder", 30, 0)
    lease = leases.create("lease", spec=spec)
    assert leases.get("lease")["spec"] == spec
    lease["spec"] = lease_spec("holder2", 31, 1)
    leases.update(lease)
    assert leases.get("lease")["spec"] == lease["spec"]
    patch = lease_spec("holder3", 32, 2)
    leases.patch("lease", {"spec": patch}, content=STRATEGIC)
    read = leases.get("lease")
    assert read["spec"] == patch
    assert version_of(read) > version_of(lease)
    leases.create("lease2", {"deletecollection": "true"}, spec=spec)
    assert leases.names() == ["lease", "lease2"]
    leases.delete_all("deletecollection=true")
    assert leases.names() == ["lease"]
    leases.delete("lease")
    assert leases.is_gone("lease")
    assert api.get(leases.all_namespaces_path)["kind"] == "LeaseList"


TEMPLATE = {"spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}


def test_pod_template_lifecycle(api: Api) -> None:
    """[sig-node] PodTemplates should run the lifecycle of PodTemplates [Conformance]"""
    templates, mine = api.for_resource("podtemplates"), f"podtemplate-static={api.namespace}"
    template = templates.create("nginx", {"podtemplate-static": api.namespace}, template=TEMPLATE)
    assert contains(templates.get("nginx"), {"metadata": {"name": "nginx"}, "template": TEMPLATE})
    patched = templates.patch("nginx", {"metadata": {"labels": {"podtemplate": "patched"}}}, content=STRATEGIC)
    assert version_of(patched) > version_of(template)
    assert templates.get("nginx")["metadata"]["labels"]["podtemplate"] == "patched"
    (listed,) = api.get(templates.all_namespaces_path, labelSelector=f"podtemplate=patched,{mine}")["items"]
    assert (listed["metadata"]["name"], listed["metadata"]["namespace"]) == ("nginx", api.namespace)
    templates.delete("nginx")
    assert templates.is_gone("nginx")
    assert templates.names(mine, path=templates.all_namespaces_path) == []


def test_delete_collection_of_pod_templates(api: Api) -> None:
    """[sig-node] PodTemplates should delete a collection of pod templates [Conformance]"""
    templates, names = (
        api.for_resource("podtemplates"),
        ["test-podtemplate-1", "test-podtemplate-2", "test-podtemplate-3"],
    )
    for name in names:
        templates.create(name, {"podtemplate-set": "true"}, template=TEMPLATE)
    templates.create("other", template=TEMPLATE)
    assert templates.names("podtemplate-set=true") == names
    templates.delete_all("podtemplate-set=true")
    assert templates.names("podtemplate-set=true") == []
    assert templates.names() == ["other"]


def test_replace_pod_template(api: Api) -> None:
    """[sig-node] PodTemplates should replace a pod template [Conformance]"""
    templates = api.for_resource("podtemplates")
    templates.create("podtemplate", template=TEMPLATE)
    updated = templates.change("podtemplate", lambda obj: obj["metadata"].update(annotations={"updated": "true"}))
    assert updated["metadata"]["annotations"] == {"updated": "true"}
    assert templates.get("podtemplate")["metadata"]["annotations"] == {"updated": "true"}


def test_runtime_class_api(api: Api) -> None:
    """[sig-node] RuntimeClass should support RuntimeClasses API operations [Conformance]"""
    check_api_operations(api, "node.k8s.io", "runtimeclasses", handler=f"{api.namespace}-handler")


# -- devices ---------------------------------------------------------------------------------------------------------

RESOURCE = "resource.k8s.io"
CLASS = {"selectors": [{"cel": {"expression": "false"}}]}
OTHER_CLASS = {"selectors": [{"cel": {"expression": "1 == 0"}}]}
CLAIM = {"devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": "dra.example.com"}}]}}
LABELLED = {"metadata": {"labels": {"test.dra.example.com": "test"}}}
POOL = {"name": "cluster", "generation": 1, "resourceSliceCount": 1}
SLICE = {"driver": "dra.example.com", "pool": POOL, "nodeName": "no-such-node"}
DEVICE = {"spec": {"devices": [{"name": "device-0"}]}}


@pytest.mark.parametrize(
    ("plural", "spec", "change"),
    [
        pytest.param(
            "deviceclasses",
            CLASS,
            {"spec": OTHER_CLASS},
            id="[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 DeviceClass",
        ),
        pytest.param(
            "resourceclaims", CLAIM, LABELLED, id="[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceClaim"
        ),
        pytest.param(
            "resourceclaimtemplates",
            {"spec": CLAIM},
            LABELLED,
            id="[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceClaimTemplate",
        ),
        pytest.param(
            "resourceslices", SLICE, DEVICE, id="[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceSlice"
        ),
    ],
)
def test_dra_api(api: Api, plural: str, spec: Value, change: Value) -> None:
    check_discovery(api, RESOURCE, plural)
    objects, name, mine = api.for_resource(plural, f"{RESOURCE}/v1"), f"{api.namespace}-0", {"e2e": api.namespace}
    with objects.watch(labelSelector=f"e2e={api.namespace}") as events:
        obj = objects.create(name, mine, spec=spec)
        assert contains(obj, {"metadata": {"name": name, "labels": mine}, "spec": spec})
        assert objects.get(name) == obj
        assert objects.names(f"e2e={api.namespace}") == [name]
        updated = objects.update(merge_values(obj, change))
        assert contains(updated, change)
        objects.delete(name)
        assert objects.is_gone(name)
        assert events.take(3) == [("ADDED", name), ("MODIFIED", name), ("DELETED", name)]
    for content, patch in patches(objects.kind, change):
        objects.create(name, mine, spec=spec)
        more = {"fieldManager": "e2e", "force": "true"} if content == APPLY else {}
        assert contains(objects.patch(name, patch, content=content, **more), change), content
        assert contains(objects.get(name), change)
        objects.delete(name)
    for number in range(2):
        objects.create(f"{api.namespace}-{number}", mine, spec=spec)
    objects.delete_all(f"e2e={api.namespace}")
    assert objects.names(f"e2e={api.namespace}") == []


def merge_values(obj: Value, change: Value) -> Value:
    """Return the object with the change, merged at any depth."""
    inner = {key: merge_values(obj.get(key, {}), value) for key, value in change.items() if isinstance(value, dict)}
    return {**obj, **change, **inner}


def patches(kind: Any, change: Value) -> list[tuple[str, Any]]:
    """Return the change as a patch of each type."""
    ((top, values),) = change.items()
    ((field, value),) = values.items()
    by_pointer = (
        [{"op": "add", "path": f"/{top}/{field}/{key}", "value": member} for key, member in value.items()]
        if isinstance(value, dict)
        else [{"op": "add", "path": f"/{top}/{field}", "value": value}]
    )
    return [(STRATEGIC, change), (MERGE, change), (JSON_PATCH, by_pointer), (APPLY, {**kind, **change})]


def test_resource_claim_status(api: Api) -> None:
    """A part of the official test "[DRA] CRUD Tests resource.k8s.io/v1 ResourceClaim": an empty allocation can be
    stored."""
    claims = api.for_resource("resourceclaims", f"{RESOURCE}/v1")
    claims.create("claim", spec=CLAIM)
    updated = claims.change("claim", lambda obj: obj.update(status={"allocation": {}}), "status")
    assert contains(updated["status"], {"allocation": {}})
    claims.create("other", spec=CLAIM)
    patched = claims.patch("other", {"status": {"allocation": {}}}, "status")
    assert contains(patched["status"], {"allocation": {}})
    assert contains(claims.get("other", "status")["status"], {"allocation": {}})
