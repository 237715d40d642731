"""Strategic merge patches with the schemas of built-in kinds: directives, order, diffs and errors."""

from typing import Any

import pytest

from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema
from sampan.machinery import patch as p

POD = schemas.definition("io.k8s.api.core.v1.Pod")
SERVICE = schemas.definition("io.k8s.api.core.v1.Service")
SERVICE_ACCOUNT = schemas.definition("io.k8s.api.core.v1.ServiceAccount")
BUDGET = schemas.definition("io.k8s.api.policy.v1.PodDisruptionBudget")
DEPLOYMENT = schemas.definition("io.k8s.api.apps.v1.Deployment")


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def named_items(names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def patch_containers(patch: list[Any], live: str = "abc", **directives: Any) -> str:
    """Return the names of the containers, in order, after a patch of the containers in `live`."""
    changed = p.apply_strategic_patch(spec(containers=named_items(live)), spec(containers=patch, **directives), POD)
    return "".join(item["name"] for item in changed["spec"]["containers"])


DELETE_B = {"name": "b", "$patch": "delete"}


@pytest.mark.parametrize(
    ("patch", "order", "result"),
    [
        ("d", None, "dabc"),
        ("cd", None, "abcd"),
        ("da", None, "dabc"),
        ("ca", None, "bca"),
        ("b", None, "abc"),
        ("", "cab", "cab"),
        ("", "c", "abc"),
        ("", "ca", "bca"),
        ("d", "dcb", "dacb"),
        ("d", "abcd", "abcd"),
    ],
)
def test_order_of_items(patch: str, order: str | None, result: str) -> None:
    directives: dict[str, Any] = {"$setElementOrder/containers": named_items(order)} if order else {}
    assert patch_containers(named_items(patch), **directives) == result


@pytest.mark.parametrize(
    ("patch", "order", "result"),
    [
        ([DELETE_B], None, "ac"),
        ([{"name": "zz", "$patch": "delete"}], None, "abc"),
        ([{"$patch": "replace"}, *named_items("xa")], None, "xa"),
        ([{"name": "a", "$patch": "replace"}], None, ""),
        ([*named_items("d"), DELETE_B], "d", "acd"),
        ([*named_items("de"), DELETE_B], "de", "acde"),
    ],
)
def test_items_with_directives(patch: list[Any], order: str | None, result: str) -> None:
    directives: dict[str, Any] = {"$setElementOrder/containers": named_items(order)} if order else {}
    assert patch_containers(patch, **directives) == result


def test_patch_directives_of_maps() -> None:
    live = spec(nodeSelector={"a": "1", "b": "2"})
    replaced = p.apply_strategic_patch(live, spec(nodeSelector={"$patch": "replace", "c": "3"}), POD)
    assert replaced == spec(nodeSelector={"c": "3"})
    assert p.apply_strategic_patch(live, spec(nodeSelector={"$patch": "delete"}), POD) == spec(nodeSelector={})


def test_lists_of_primitives() -> None:
    live = {"metadata": {"finalizers": ["one", "two", "three"]}}
    patch = {"$deleteFromPrimitiveList/finalizers": ["two"], "finalizers": ["four", "one"]}
    changed = p.apply_strategic_patch(live, {"metadata": patch}, POD)
    assert changed["metadata"]["finalizers"] == ["four", "one", "three"]
    order = {"metadata": {"$setElementOrder/finalizers": ["three", "two"]}}
    assert p.apply_strategic_patch(live, order, POD)["metadata"]["finalizers"] == ["one", "three", "two"]


def test_retain_keys_directive() -> None:
    live = spec(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}])
    patch = spec(volumes=[{"name": "v", "configMap": {"name": "c"}, "$retainKeys": ["name", "configMap"]}])
    changed = p.apply_strategic_patch(live, patch, POD)
    assert changed == spec(volumes=[{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}])


def test_merge_keys_and_replace_strategies_of_built_in_kinds() -> None:
    ports = spec(ports=[{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}])
    changed = p.apply_strategic_patch(ports, spec(ports=[{"port": 53, "name": "dns"}]), SERVICE)
    assert changed["spec"]["ports"] == [{"port": 53, "protocol": "TCP", "name": "dns"}, {"port": 53, "protocol": "UDP"}]

    account = p.apply_strategic_patch(
        {"imagePullSecrets": named_items("a")}, {"imagePullSecrets": named_items("b")}, SERVICE_ACCOUNT
    )
    assert account == {"imagePullSecrets": named_items("b")}

    selector = spec(selector={"matchLabels": {"a": "1"}})
    patch = spec(selector={"matchLabels": {"b": "2"}})
    assert p.apply_strategic_patch(selector, patch, BUDGET) == patch


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            spec(containers=[{"name": "a", "$patch": "shrink"}]),
            500,
            "unknown patch type: shrink in map: map[$patch:shrink name:a]",
        ),
        (spec(nodeSelector={"$patch": 5}), 500, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        ({"$patch": "merge"}, 500, "unknown patch type: merge in map: map[$patch:merge]"),
        (
            spec(containers=[{"name": "a", "$patch": "merge"}]),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            spec(containers=[{"image": "i"}]),
            500,
            "map: map[image:i] does not contain declared merge key: name",
        ),
        (
            spec(containers=["a"]),
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (spec(containers=[{"name": "a", "$retainKeys": "name"}]), 400, "invalid patch format of retainKeys"),
        (spec(**{"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list"),
        (spec(**{"$deleteFromPrimitiveList": []}), 400, "invalid patch format of primitive list"),
        (
            spec(**{"$setElementOrder/containers": "a"}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            spec(**{"$setElementOrder/boxes": []}),
            500,
            'unable to find api field in struct PodSpec for the json field "boxes"',
        ),
        (
            spec(containers=named_items("a"), **{"$setElementOrder/containers": named_items("b")}),
            500,
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
    ],
)
def test_invalid_patches_are_rejected(patch: dict[str, Any], code: int, message: str) -> None:
    live = spec(containers=named_items("a"), nodeSelector={})
    with pytest.raises(p.PatchError) as failure:
        p.apply_strategic_patch(live, patch, POD)
    error = failure.value.as_api_error()
    assert (error.code, error.message) == (code, message)
    assert error.reason == ("BadRequest" if code == 400 else "")


def test_lists_of_lists_are_rejected() -> None:
    schema = Schema(properties={"a": Schema(type="array", patch_strategy=("merge",))})
    with pytest.raises(p.RefusedPatch) as failure:
        p.apply_strategic_patch({"a": [[1]]}, {"a": [[2]]}, schema)
    assert failure.value.as_api_error().code == 422


def test_unchanged_parts_are_shared() -> None:
    live = spec(containers=named_items("ab"), volumes=named_items("v"))
    changed = p.apply_strategic_patch(live, spec(containers=[{"name": "a", "image": "i"}]), POD)
    assert changed["spec"]["volumes"] is live["spec"]["volumes"]
    assert changed["spec"]["containers"][1] is live["spec"]["containers"][1]


def test_strategic_diff() -> None:
    original = {"metadata": {"finalizers": ["x", "y"]}, **spec(containers=named_items("ab"), hostname="h")}
    modified = {"metadata": {"finalizers": ["z", "x"]}, **spec(containers=[{"name": "c"}, {"name": "a", "image": "i"}])}
    assert p.strategic_diff(original, modified, POD) == {
        "metadata": {
            "finalizers": ["z"],
            "$deleteFromPrimitiveList/finalizers": ["y"],
            "$setElementOrder/finalizers": ["z", "x"],
        },
        "spec": {
            "containers": [{"name": "c"}, {"name": "a", "image": "i"}, {"name": "b", "$patch": "delete"}],
            "$setElementOrder/containers": named_items("ca"),
            "hostname": None,
        },
    }


def test_strategic_diff_with_retain_keys() -> None:
    original = spec(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
    patch = p.strategic_diff(original, spec(strategy={"type": "Recreate"}), DEPLOYMENT)
    assert patch == spec(strategy={"type": "Recreate", "rollingUpdate": None, "$retainKeys": ["type"]})


def test_three_way_strategic_diff() -> None:
    """One container is changed, one removed and one added; the sidecar of another writer is kept."""
    original = spec(containers=named_items("abc"))
    modified = spec(containers=[{"name": "a", "image": "new"}, *named_items("cd")])
    current = spec(containers=[{"name": "a", "image": "old"}, {"name": "b"}, {"name": "sidecar"}, {"name": "c"}])
    patch = p.three_way_strategic_diff(original, modified, current, POD)
    assert patch == spec(
        **{
            "containers": [{"name": "a", "image": "new"}, {"name": "d"}, DELETE_B],
            "$setElementOrder/containers": named_items("acd"),
        }
    )
    changed = p.apply_strategic_patch(current, patch, POD)
    assert [item["name"] for item in changed["spec"]["containers"]] == ["a", "sidecar", "c", "d"]


def test_long_lists_take_linear_time() -> None:
    """Twenty thousand deletions and additions would take minutes if any step were quadratic."""
    names = [str(i) for i in range(20_000)]
    live = spec(containers=[{"name": name} for name in names])
    patch = [{"name": name, "$patch": "delete"} for name in names] + [{"name": f"new-{name}"} for name in names]
    changed = p.apply_strategic_patch(live, spec(containers=patch), POD)
    assert [item["name"] for item in changed["spec"]["containers"]] == [f"new-{name}" for name in names]
    unordered = spec(containers=patch[20_000:], **{"$setElementOrder/containers": []})
    assert len(p.apply_strategic_patch(live, unordered, POD)["spec"]["containers"]) == 40_000


def test_malformed_patches_are_rejected() -> None:
    assert p.check_strategic_patch(None) == {}
    with pytest.raises(p.MalformedPatch, match="cannot unmarshal array into Go value"):
        p.check_strategic_patch([])


def test_order_with_a_replacement_of_the_list_ends() -> None:
    patch = [{"$patch": "replace"}, {"name": "x"}]
    directives: dict[str, Any] = {"$setElementOrder/containers": named_items("x")}
    assert patch_containers(patch, **directives) == "x"


@pytest.mark.parametrize(
    ("metadata", "deleted", "result"),
    [
        ({}, ["a"], {}),
        ({"finalizers": ["a", "b"]}, ["a"], {"finalizers": ["b"]}),
        ({"finalizers": ["a"]}, "a", {"finalizers": ["a"]}),
        ({"finalizers": ["a"]}, {"a": "b"}, {"finalizers": ["a"]}),
        ({}, "a", {}),
        ({"finalizers": ["a"], "name": "n"}, None, {"name": "n"}),
        ({}, None, {}),
    ],
)
def test_deletion_from_a_list_of_primitives(metadata: Any, deleted: Any, result: Any) -> None:
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": deleted}}
    assert p.apply_strategic_patch({"metadata": metadata}, patch, POD) == {"metadata": result}
