"""Managers of spec.replicas, as the scale subresource shows them."""

from sampan.machinery.apply.managed import (
    REPLICAS,
    SCALE_VERSION,
    Managed,
    VersionedFieldSet,
    derive_scale_managers,
    merge_scale_managers,
    owner,
)
from sampan.machinery.apply.sets import from_paths

APPS = "apps/v1"
PATHS = {APPS: REPLICAS}
IMAGE = ("f:spec", "f:image")


def claim(*paths: tuple[str, ...], version: str = APPS, time: str | None = "t") -> VersionedFieldSet:
    return VersionedFieldSet(from_paths(*paths), version, time)


def test_scale_shows_the_managers_of_replicas() -> None:
    parent: Managed = {
        owner("a", "Update", APPS, ""): claim(REPLICAS, IMAGE),
        owner("b", "Apply", APPS, ""): claim(REPLICAS),
        owner("c", "Update", APPS, ""): claim(IMAGE),
        owner("d", "Update", "apps/v0", ""): claim(REPLICAS, version="apps/v0"),
    }
    assert derive_scale_managers(parent, PATHS) == {
        owner("a", "Update", SCALE_VERSION, ""): claim(REPLICAS, version=SCALE_VERSION),
        owner("b", "Apply", SCALE_VERSION, ""): claim(REPLICAS, version=SCALE_VERSION),
    }


def test_scaling_takes_ownership_of_replicas() -> None:
    parent: Managed = {
        owner("a", "Update", APPS, ""): claim(REPLICAS, IMAGE),
        owner("b", "Apply", APPS, ""): claim(REPLICAS),
    }
    scale: Managed = {owner("s", "Update", SCALE_VERSION, "scale"): claim(REPLICAS, version=SCALE_VERSION)}
    assert merge_scale_managers(parent, scale, APPS, PATHS) == [
        {owner("a", "Update", APPS, ""): claim(IMAGE)},
        {owner("s", "Update", APPS, "scale"): claim(REPLICAS, time=None)},
    ]


def test_applier_that_keeps_replicas_is_unchanged() -> None:
    parent: Managed = {owner("b", "Apply", APPS, ""): claim(REPLICAS, IMAGE)}
    assert merge_scale_managers(parent, derive_scale_managers(parent, PATHS), APPS, PATHS) == [parent, {}]


def test_updater_that_keeps_replicas_gets_a_separate_entry() -> None:
    parent: Managed = {owner("a", "Update", APPS, ""): claim(REPLICAS, IMAGE)}
    assert merge_scale_managers(parent, derive_scale_managers(parent, PATHS), APPS, PATHS) == [
        {owner("a", "Update", APPS, ""): claim(IMAGE)},
        {owner("a", "Update", APPS, ""): claim(REPLICAS, time=None)},
    ]


def test_managers_of_removed_versions_are_removed() -> None:
    parent: Managed = {owner("d", "Update", "apps/v0", ""): claim(IMAGE, version="apps/v0")}
    assert merge_scale_managers(parent, {}, APPS, PATHS) == [{}, {}]
