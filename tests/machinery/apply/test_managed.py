"""Managers of the replicas, seen through the scale."""

from sampan.machinery.apply.managed import REPLICAS, SCALE_VERSION, Claim, Managed, of_parent, of_scale, owner
from sampan.machinery.apply.sets import of

APPS = "apps/v1"
PATHS = {APPS: REPLICAS}
IMAGE = ("f:spec", "f:image")


def claim(*paths: tuple[str, ...], version: str = APPS, time: str | None = "t") -> Claim:
    return Claim(of(*paths), version, time)


def test_the_scale_has_the_managers_of_the_replicas() -> None:
    parent: Managed = {
        owner("a", "Update", APPS, ""): claim(REPLICAS, IMAGE),
        owner("b", "Apply", APPS, ""): claim(REPLICAS),
        owner("c", "Update", APPS, ""): claim(IMAGE),
        owner("d", "Update", "apps/v0", ""): claim(REPLICAS, version="apps/v0"),
    }
    assert of_scale(parent, PATHS) == {
        owner("a", "Update", SCALE_VERSION, ""): claim(REPLICAS, version=SCALE_VERSION),
        owner("b", "Apply", SCALE_VERSION, ""): claim(REPLICAS, version=SCALE_VERSION),
    }


def test_who_scales_takes_the_replicas() -> None:
    parent: Managed = {
        owner("a", "Update", APPS, ""): claim(REPLICAS, IMAGE),
        owner("b", "Apply", APPS, ""): claim(REPLICAS),
    }
    scale: Managed = {owner("s", "Update", SCALE_VERSION, "scale"): claim(REPLICAS, version=SCALE_VERSION)}
    assert of_parent(parent, scale, APPS, PATHS) == [
        {owner("a", "Update", APPS, ""): claim(IMAGE)},
        {owner("s", "Update", APPS, "scale"): claim(REPLICAS, time=None)},
    ]


def test_an_applier_that_keeps_the_replicas_stays_as_it_is() -> None:
    parent: Managed = {owner("b", "Apply", APPS, ""): claim(REPLICAS, IMAGE)}
    assert of_parent(parent, of_scale(parent, PATHS), APPS, PATHS) == [parent, {}]


def test_one_who_updates_is_not_found_again() -> None:
    parent: Managed = {owner("a", "Update", APPS, ""): claim(REPLICAS, IMAGE)}
    assert of_parent(parent, of_scale(parent, PATHS), APPS, PATHS) == [
        {owner("a", "Update", APPS, ""): claim(IMAGE)},
        {owner("a", "Update", APPS, ""): claim(REPLICAS, time=None)},
    ]


def test_managers_of_versions_that_are_gone_go() -> None:
    parent: Managed = {owner("d", "Update", "apps/v0", ""): claim(IMAGE, version="apps/v0")}
    assert of_parent(parent, {}, APPS, PATHS) == [{}, {}]
