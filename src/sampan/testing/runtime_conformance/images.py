"""Images are looked up, pulled and removed."""

from __future__ import annotations

from sampan.api.types.core_v1 import Container
from sampan.testing.runtime_conformance.bench import expect_failure, open_bench
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()


@CHECKS.add(Feature.IMAGES)
async def image_status_and_image_list_agree(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        image = await bench.runtime.image(subject.image)
        assert image is not None
        assert image.id
        by_id = await bench.runtime.image(image.id)
        assert by_id is not None
        assert by_id.id == image.id
        assert image.id in [listed.id for listed in await bench.runtime.images()]
        assert await bench.runtime.image("sampan.local/no-such:1") is None


@CHECKS.add(Feature.PULL)
async def image_can_be_pulled_and_removed(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        name = f"{subject.registry}/busybox:pulled"
        pod, container = bench.pod(), Container(name="c", image=name)
        assert await bench.runtime.image(name) is None
        pulled = await bench.runtime.pull_image(pod, container, None)
        assert pulled.credentials is None
        image = await bench.runtime.image(name)
        assert image is not None
        assert await bench.runtime.image(pulled.reference) is not None
        await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod))
        assert await bench.run(pod, "echo pulled", image=name, image_ref=image.id) == ["pulled"]
        await bench.runtime.remove_pod(pod.metadata.uid)
        await bench.runtime.remove_image(name)
        assert await bench.runtime.image(name) is None


@CHECKS.add(Feature.PULL)
async def failed_image_pull_has_a_reason(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        absent = Container(name="c", image=f"{subject.registry}/no-such:1")
        assert (await expect_failure(bench.runtime.pull_image(bench.pod(), absent, None))).reason == "ErrImagePull"
        odd = Container(name="c", image="Not A Name")
        assert (await expect_failure(bench.runtime.pull_image(bench.pod(), odd, None))).reason == "InvalidImageName"
