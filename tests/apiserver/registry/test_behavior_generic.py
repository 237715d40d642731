"""The generic strategy of kinds without rules of their own, and its status subresource."""

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.api.types.apps_v1 import Deployment, DeploymentSpec, DeploymentStatus  # noqa: E402
from sampan.api.types.meta_v1 import ObjectMeta  # noqa: E402
from sampan.apiserver.registry.behavior import GenericStatusStrategy, GenericStrategy  # noqa: E402
from sampan.apiserver.registry.strategy import Context  # noqa: E402
from sampan.apiserver.request.call import UserInfo  # noqa: E402
from sampan.testing.registry_conformance import Api  # noqa: E402
from tests.apiserver.registry.subjects import gadgets, open_pipelines  # noqa: E402


def _deployment(replicas: int, *, ready: int = 0, label: str = "") -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="d", labels={"l": label} if label else {}),
        spec=DeploymentSpec(replicas=replicas),
        status=DeploymentStatus(readyReplicas=ready),
    )


def _context() -> Context:
    return Context(services=None, user=UserInfo("u"), now="2026-01-01T00:00:00Z")  # type: ignore[arg-type]


def test_options_become_attributes_of_the_strategy() -> None:
    strategy = GenericStrategy(
        has_status=False, allow_create_on_update=True, allow_unconditional_update=False, return_deleted_object=True
    )
    assert (strategy.allow_create_on_update, strategy.allow_unconditional_update) == (True, False)
    assert strategy.return_deleted_object


def test_the_generation_counts_changes_of_the_spec() -> None:
    strategy = GenericStrategy(has_status=True, counts_generation=True)
    assert strategy.counts_generation
    assert strategy.spec_of(_deployment(1, ready=1, label="x")) == strategy.spec_of(_deployment(1))
    assert strategy.spec_of(_deployment(1)) != strategy.spec_of(_deployment(2))
    assert not GenericStrategy(has_status=True).counts_generation


def test_the_main_path_does_not_write_the_status() -> None:
    strategy, sent = GenericStrategy(has_status=True), _deployment(1, ready=1)
    strategy.prepare_for_create(_context(), sent)
    assert sent.status == DeploymentStatus()
    changed = _deployment(2, ready=5)
    strategy.prepare_for_update(_context(), changed, _deployment(1, ready=3))
    assert (changed.spec.replicas, changed.status.readyReplicas) == (2, 3)


@pytest.mark.parametrize(("keeps_metadata", "label"), [(True, "old"), (False, "new")])
def test_status_subresource_writes_only_status_and_metadata_unless_kept(keeps_metadata: bool, label: str) -> None:
    strategy = GenericStatusStrategy(GenericStrategy(has_status=True), keeps_metadata=keeps_metadata)
    sent = _deployment(2, ready=5, label="new")
    strategy.prepare_for_update(_context(), sent, _deployment(1, ready=3, label="old"))
    assert (sent.spec.replicas, sent.status.readyReplicas, sent.metadata.labels) == (1, 5, {"l": label})


async def test_status_of_custom_object_is_written_only_by_status_subresource() -> None:
    async with open_pipelines() as (pipeline,):
        api = Api(pipeline, gadgets())
        created = await api.create({**api.subject.build_object("g", 1), "status": {"seen": 1}})
        assert "status" not in created.value
        assert created.value["spec"] == {"size": 1, "colour": "red"}, "the default of the schema"
        status_patched = await api.merge(
            "g/status", {"status": {"seen": 2}, "spec": {"size": 9}, "metadata": {"labels": {"l": "1"}}}
        )
        assert (status_patched.value["status"], status_patched.value["spec"]["size"]) == ({"seen": 2}, 1), (
            status_patched.value
        )
        assert "labels" not in status_patched.value["metadata"]
        main_patched = await api.merge("g", {"status": None, "spec": {"size": 2}})
        assert (main_patched.value["status"], main_patched.value["spec"]["size"]) == ({"seen": 2}, 2), (
            main_patched.value
        )
        assert [reply.value["metadata"]["generation"] for reply in (created, status_patched, main_patched)] == [1, 1, 2]
        cleared = await api.merge("g/status", {"status": None})
        assert "status" not in cleared.value
        assert (await api.get("g/status")).value == cleared.value
