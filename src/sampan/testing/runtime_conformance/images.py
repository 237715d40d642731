"""Images are looked up, pulled and removed."""

from __future__ import annotations

from sampan.api.types.core_v1 import Container
from sampan.testing.runtime_conformance.bench import bench, refused
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()


@CHECKS.add(Feature.IMAGES)
async def an_image_is_found(subject: Subject) -> None:
    async with bench(subject) as at:
        image = await at.runtime.image(subject.image)
        assert image is not None
        assert image.id
        by_id = await at.runtime.image(image.id)
        assert by_id is not None
        assert by_id.id == image.id
        assert image.id in [listed.id for listed in await at.runtime.images()]
        assert await at.runtime.image("sampan.local/no-such:1") is None


@CHECKS.add(Feature.PULL)
async def an_image_is_pulled_and_removed(subject: Subject) -> None:
    async with bench(subject) as at:
        name = f"{subject.registry}/busybox:pulled"
        pod, container = at.pod(), Container(name="c", image=name)
        assert await at.runtime.image(name) is None
        pulled = await at.runtime.pull_image(pod, container, None)
        assert pulled.credentials is None
        image = await at.runtime.image(name)
        assert image is not None
        assert await at.runtime.image(pulled.reference) is not None
        await at.runtime.run_sandbox(pod, at.sandbox_config(pod))
        assert await at.run(pod, "echo pulled", image=name, image_ref=image.id) == ["pulled"]
        await at.runtime.remove_pod(pod.metadata.uid)
        await at.runtime.remove_image(name)
        assert await at.runtime.image(name) is None


@CHECKS.add(Feature.PULL)
async def an_image_cannot_be_pulled(subject: Subject) -> None:
    async with bench(subject) as at:
        absent = Container(name="c", image=f"{subject.registry}/no-such:1")
        assert (await refused(at.runtime.pull_image(at.pod(), absent, None))).reason == "ErrImagePull"
        odd = Container(name="c", image="Not A Name")
        assert (await refused(at.runtime.pull_image(at.pod(), odd, None))).reason == "InvalidImageName"
