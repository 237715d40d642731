"""root-ca-certificate-publisher-controller."""

import pytest

from sampan.api.types.core_v1 import ConfigMap, Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers import root_ca
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.root_ca import (
    DESCRIPTION_KEY,
    RootCaPublisherController,
    build_config_map,
    correct_config_map,
    is_right,
)
from sampan.machinery.client import PatchType, Selection
from tests.controllers.cluster import check_second_run_writes_nothing, cluster

NAME = RootCaPublisherController.name
OURS = Selection(fields=f"metadata.name={root_ca.NAME}")


@pytest.mark.parametrize(
    ("data", "annotations", "right"),
    [
        ({"ca.crt": "b"}, {DESCRIPTION_KEY: "x"}, True),
        ({"ca.crt": "b"}, {DESCRIPTION_KEY: "x", "other": "y"}, True),
        ({"ca.crt": "other"}, {DESCRIPTION_KEY: "x"}, False),
        ({"ca.crt": "b", "more": "c"}, {DESCRIPTION_KEY: "x"}, False),
        ({}, {DESCRIPTION_KEY: "x"}, False),
        ({"ca.crt": "b"}, {}, False),
        ({"ca.crt": "b"}, {DESCRIPTION_KEY: ""}, False),
    ],
)
def test_wrong_config_map_is_corrected(data: dict[str, str], annotations: dict[str, str], right: bool) -> None:
    config_map = ConfigMap(metadata=ObjectMeta(name=root_ca.NAME, annotations=dict(annotations)), data=data)
    assert is_right(config_map, "b") is right
    fixed = correct_config_map(config_map, "b")
    assert is_right(fixed, "b")
    assert config_map.metadata.annotations == annotations, "the cached object is not changed"
    assert is_right(build_config_map("n", "b"), "b")


async def test_every_namespace_has_the_root_ca_and_changes_are_reverted() -> None:
    async with cluster() as c:
        maps = c.client.for_kind(ConfigMap)
        async with c.running(NAME):
            assert len((await maps.list(OURS)).items) == 4
            await c.client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="new")))
            await c.clock.settle()
            assert (await maps.get(root_ca.NAME, "new")).data == {"ca.crt": "the bundle"}
            await maps.patch(root_ca.NAME, {"data": {"ca.crt": "evil", "more": "x"}}, "new", type=PatchType.MERGE)
            await c.clock.settle()
            assert (await maps.get(root_ca.NAME, "new")).data == {"ca.crt": "the bundle"}
            await maps.delete(root_ca.NAME, "new")
            await c.clock.settle()
            assert (await maps.get(root_ca.NAME, "new")).metadata.annotations[DESCRIPTION_KEY].startswith("Contains")
            await maps.create(ConfigMap(metadata=ObjectMeta(name="other", namespace="new"), data={"x": "1"}))
            await c.clock.settle()
            assert (await maps.get("other", "new")).data == {"x": "1"}
        await check_second_run_writes_nothing(c, NAME)


async def test_changed_bundle_is_published_to_all_namespaces() -> None:
    async with cluster() as c:
        async with c.running(NAME):
            pass
        async with c.running(NAME, config=ControllerConfig(root_ca="another")):
            config_maps = (await c.client.for_kind(ConfigMap).list(OURS)).items
            assert [obj.data for obj in config_maps] == [{"ca.crt": "another"}] * 4


async def test_without_a_bundle_nothing_is_published() -> None:
    async with cluster() as c, c.running(NAME, config=ControllerConfig()) as manager:
        assert manager.runners == []
