"""The conformance test of sig-apps for ControllerRevision. The first paragraph of the docstring is the official test
name."""

from sampan.api.types.apps_v1 import ControllerRevision, DaemonSet
from sampan.machinery.client import Selection
from sampan.machinery.copies import copy_of
from tests.e2e.conformance.apps.sets import Sets, daemon_set, run_scenario


def test_lifecycle() -> None:
    """[sig-apps] ControllerRevision should manage the lifecycle of a ControllerRevision [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set())
        revisions = c.client.for_kind(ControllerRevision)
        (first,) = (await revisions.list(Selection(labels="app=set"))).items
        name = first.metadata.name
        patched = await revisions.patch(name, {"metadata": {"labels": {name: "patched"}}}, "default")
        assert patched.metadata.labels[name] == "patched"
        await c.clock.advance(5)

        second = copy_of(first)
        second.metadata.name, second.revision = "daemon-set-second", first.revision + 1
        second.metadata.labels["controller-revision-hash"] = "second"
        second.metadata.uid = second.metadata.resourceVersion = ""
        await revisions.create(second)
        await c.clock.advance(5)
        assert len(await c.revisions()) == 2
        await revisions.delete(name, "default")
        await c.clock.advance(60)
        (present,) = await c.revisions()
        assert present.metadata.name == "daemon-set-second"

        changed = copy_of(present)
        changed.metadata.labels[changed.metadata.name] = "updated"
        updated = await revisions.update(changed)
        assert updated.metadata.labels["daemon-set-second"] == "updated"
        spec = {"template": {"spec": {"terminationGracePeriodSeconds": 1}}, "updateStrategy": {"type": "RollingUpdate"}}
        await c.patch(DaemonSet, spec, 120)
        assert len(await c.revisions()) == 2
        await revisions.delete_collection(Selection(namespace="default", labels="daemon-set-second=updated"))
        await c.clock.advance(60)
        (last,) = await c.revisions()
        assert last.revision == 3

    run_scenario(scenario)
