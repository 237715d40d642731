"""ControllerRevisions: data, hashes, names, order and history limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import json
from sampan.api.types.apps_v1 import ControllerRevision
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values.scalars import RawJSON
from sampan.controllers.ownership import revisions
from tests.controllers.ownership.objects import owner

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "one",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}


def template(image: str = "one") -> PodTemplateSpec:
    template = json.from_value(TEMPLATE, PodTemplateSpec)
    assert template.spec.containers is not None
    template.spec.containers[0].image = image
    return template


def revision(number: int, name: str = "", created: str = "", data: bytes = b"null") -> ControllerRevision:
    meta = ObjectMeta(name=name or f"web-{number}", creationTimestamp=created or None)
    return ControllerRevision(metadata=meta, revision=number, data=RawJSON(data))


def test_hash_equals_the_hash_of_kubernetes() -> None:
    patch = revisions.template_patch(template())
    assert revisions.data_hash(patch, 0) == "b8f5d4b48"
    assert revisions.data_hash(patch, 1) != revisions.data_hash(patch, 0) != revisions.data_hash(patch, None)


def test_template_patch_has_sorted_keys() -> None:
    text = bytes(revisions.template_patch(template())).decode()
    assert text.startswith('{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"cont')
    assert '"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName"' in text


def test_template_patch_is_escaped_like_go_json() -> None:
    patch = revisions.template_patch(template("a<b>&\u2028\u2029é"))
    assert b'"image":"a\\u003cb\\u003e\\u0026\\u2028\\u2029\xc3\xa9"' in bytes(patch)
    unescaped = json.encode(json.read_any(patch))
    assert unescaped != bytes(patch)
    assert revisions.is_equal(revision(1, data=unescaped), patch)


def test_a_revision_restores_its_template() -> None:
    patch = revisions.template_patch(template("two"))
    revision = revisions.new_revision(owner(), template("two"), 3, hash="abc", hash_label="h", patch=patch)
    assert revisions.template_of(revision) == template("two")
    assert revisions.is_equal(revision, patch)
    assert not revisions.is_equal(revision, revisions.template_patch(template("one")))
    assert (revision.metadata.name, revision.revision) == ("web-abc", 3)
    assert revision.metadata.labels == {"app": "web", "h": "abc"}
    assert revision.metadata.ownerReferences[0].uid == "owner-uid"


def test_semantically_equal_templates_are_alike() -> None:
    data = json.read_any(revisions.template_patch(template()))
    data["spec"]["template"]["metadata"]["creationTimestamp"] = None
    new_revision = revision(1, data=json.encode(data))
    assert not revisions.is_equal(new_revision, revisions.template_patch(template()))
    assert revisions.is_alike(new_revision, template())
    assert not revisions.is_alike(new_revision, template("two"))
    assert not revisions.is_alike(revision(1, data=b'{"x":1}'), template())


def test_revisions_are_sorted_by_number_then_age_then_name() -> None:
    existing = [
        revision(2, "d"),
        revision(1, "c", "2026-01-02T00:00:00Z"),
        revision(1, "b", "2026-01-01T00:00:00Z"),
        revision(1, "a", "2026-01-02T00:00:00Z"),
    ]
    assert [revision.metadata.name for revision in revisions.sort_revisions(existing)] == ["b", "a", "c", "d"]
    assert revisions.next_number(existing) == 3
    assert revisions.next_number([]) == 1


@pytest.mark.parametrize(
    ("count", "limit", "live", "expected"),
    [
        (3, 3, [], []),
        (3, 1, [], [1, 2]),
        (3, 0, [], [1, 2, 3]),
        (3, 1, ["web-1"], [2]),
        (3, 0, ["web-1", "web-3"], [2]),
        (3, -1, [], []),
    ],
)
def test_surplus_revisions_by_history_limit(count: int, limit: int, live: list[str], expected: list[int]) -> None:
    existing = [revision(at) for at in range(1, count + 1)]
    assert [revision.revision for revision in revisions.surplus(existing, limit, live)] == expected


def test_long_owner_names_are_truncated() -> None:
    assert revisions.revision_name("x" * 253, "abc") == "x" * 223 + "-abc"


@given(st.text(), st.integers(0, 2**31 - 1))
def test_hashes_are_valid_in_names(image: str, collisions: int) -> None:
    for hash in (
        revisions.data_hash(RawJSON(json.encode({"image": image})), collisions),
        revisions.template_hash(template(image), collisions),
    ):
        assert 1 <= len(hash) <= 10
        assert set(hash) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert revisions.template_hash(template(image), None) != revisions.template_hash(template(image + "x"), None)
