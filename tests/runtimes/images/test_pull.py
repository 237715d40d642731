"""Pulling of images from a registry."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.host.clock import RealClock
from sampan.runtimes.images import ImageStore, parse_reference
from sampan.runtimes.images.credentials import Keyring, RegistryCredentials, read_docker_config
from sampan.runtimes.images.manifests import Platform
from sampan.runtimes.images.pull import ImagePuller, PullConfig, PullFailed
from tests.eventually import eventually
from tests.runtimes.images.builders import MadeImage, digest, index_of
from tests.runtimes.images.registry import FakeRegistry, serving

AMD = Platform("amd64", "linux")
NO_CREDENTIALS = Keyring()


Scenario = Callable[[ImagePuller, ImageStore, str], Awaitable[None]]


def run_scenario(
    directory: Path, registry: FakeRegistry, scenario: Scenario, config: Callable[[str], PullConfig] | None = None
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), serving(registry) as address:
            store = ImageStore(directory / "images")
            pull_config = config(address) if config is not None else PullConfig(platform=AMD)
            async with ImagePuller(store=store, clock=RealClock(), config=pull_config) as puller:
                await scenario(puller, store, address)

    asyncio.run(main())


def image() -> MadeImage:
    return MadeImage({"etc": None, "etc/one": b"1" * 5000}, {"etc/two": b"2"}, Cmd=["/bin/sh"])


def test_pull_fetches_only_missing_blobs(tmp_path: Path) -> None:
    registry, pushed = FakeRegistry(), image()
    registry.add("team/app", "1", pushed)

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        image = await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert image.reference == f"{address}/team/app@{pushed.digest}"
        assert len(store.lower_layers(store.get(f"{address}/team/app:1"))) == 2
        before = len(registry.requests)
        await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert registry.requests[before:] == ["/v2/team/app/manifests/1"], "stored blobs are not fetched again"
        await puller.pull(parse_reference(f"{address}/team/app@{pushed.digest}"), NO_CREDENTIALS)
        assert registry.requests[before + 1 :] == [f"/v2/team/app/manifests/{pushed.digest}"]

    run_scenario(tmp_path, registry, scenario)


def test_progress_of_a_pull_is_the_part_that_has_arrived(tmp_path: Path) -> None:
    registry, pushed = FakeRegistry(), image()
    registry.add("team/app", "1", pushed)

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        reference = parse_reference(f"{address}/team/app:1")
        registry.may_finish.clear()
        pulling = asyncio.create_task(puller.pull(reference, NO_CREDENTIALS))
        sizes = [len(data) for key, data in pushed.blobs.items() if key != pushed.digest]
        half, size = (sum(size // part for size in sizes) for part in (2, 1))
        await eventually(lambda: puller.progress(reference) == (half, size))
        registry.may_finish.set()
        await pulling
        assert puller.progress(reference) is None

    run_scenario(tmp_path, registry, scenario)


def test_image_of_the_platform_is_chosen_from_an_index(tmp_path: Path) -> None:
    own, other = image(), MadeImage({"x": b"y"}, architecture="arm64")
    index = index_of(other, own, architectures=("arm64", "amd64"))
    registry = FakeRegistry()
    registry.add("team/app", "1", own, other, index=index)

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        image = await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert image.id == own.id
        assert f"{address}/team/app@{digest(index)}" in image.digests
        assert store.get(f"{address}/team/app@{digest(index)}").id == own.id

    run_scenario(tmp_path, registry, scenario)


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_pull_requires_valid_credentials(tmp_path: Path, auth: str) -> None:
    registry = FakeRegistry(auth)
    registry.add("team/app", "1", image())

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        reference = parse_reference(f"{address}/team/app:1")
        with pytest.raises(PullFailed, match="401 authentication is required"):
            await puller.pull(reference, NO_CREDENTIALS)
        may = RegistryCredentials("may", "secret")
        config = {"auths": {f"http://{address}": {"auth": base64.b64encode(b"may:secret").decode()}}}
        keys = read_docker_config(json.dumps(config).encode())
        wrong = Keyring([(f"{address}/team", RegistryCredentials("may", "wrong"))])
        image, used_credentials = await puller.pull_with_keyring(reference, Keyring.merge([wrong, keys]))
        assert used_credentials == may
        for known in (reference, parse_reference(image.reference)):
            with pytest.raises(PullFailed, match="401"):  # although all blobs are stored
                await puller.pull(known, NO_CREDENTIALS)

    run_scenario(tmp_path, registry, scenario)


def test_pull_errors_and_interrupted_downloads(tmp_path: Path) -> None:
    registry, pushed, bad = FakeRegistry(), image(), image()
    registry.add("team/app", "1", pushed)
    registry.add("team/bad", "1", bad)
    at = f"/v2/team/bad/blobs/{digest(bad.packed[0])}"
    registry.documents[at] = registry.documents[at][:-1] + b"?"

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        async def failure(name: str) -> str:
            with pytest.raises(PullFailed) as raised:
                await puller.pull(parse_reference(name), NO_CREDENTIALS)
            return str(raised.value)

        assert await failure(f"{address}/team/app:2") == f"{address}: 404 not found: MANIFEST_UNKNOWN: no such"
        assert "digest is" in await failure(f"{address}/team/bad:1")
        assert "127.0.0.1:1" in await failure("127.0.0.1:1/team/app")
        assert store.list() == []
        registry.broken = 2
        await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert not list((tmp_path / "images/blobs/sha256").glob(".new-*"))

    run_scenario(tmp_path, registry, scenario)


def test_registry_mirrors_are_tried_first(tmp_path: Path) -> None:
    registry = FakeRegistry()
    registry.add("library/app", "latest", image())

    def config(address: str) -> PullConfig:
        return PullConfig(platform=AMD, mirrors={"docker.io": ["http://127.0.0.1:1", f"http://{address}"]})

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        image = await puller.pull(parse_reference("app"), NO_CREDENTIALS)
        assert image.names == ["docker.io/library/app:latest"]

    run_scenario(tmp_path, registry, scenario, config)


def test_concurrent_pulls_fetch_each_blob_once(tmp_path: Path) -> None:
    registry = FakeRegistry()
    registry.add("team/app", "1", image())

    async def scenario(puller: ImagePuller, store: ImageStore, address: str) -> None:
        reference = parse_reference(f"{address}/team/app:1")
        await asyncio.gather(*(puller.pull(reference, NO_CREDENTIALS) for _ in range(5)))
        blobs = [path for path in registry.requests if "/blobs/" in path]
        assert len(blobs) == len(set(blobs)) == 3

    run_scenario(tmp_path, registry, scenario)


@pytest.mark.parametrize(
    ("registry", "name", "is_match"),
    [
        ("https://index.docker.io/v1/", "nginx", True),
        ("quay.io", "quay.io/a/b", True),
        ("quay.io/a", "quay.io/a/b", True),
        ("quay.io/a", "quay.io/ab/c", False),
        ("*.example.com", "r.example.com/x", True),
        ("*.example.com", "a.r.example.com/x", False),
        ("quay.io", "nginx", False),
    ],
)
def test_credentials_match_registries_and_paths(registry: str, name: str, is_match: bool) -> None:
    keys = read_docker_config(json.dumps({registry: {"username": "u", "password": "p"}}).encode())
    credentials: list[Any] = keys.find(parse_reference(name))
    assert credentials == ([RegistryCredentials("u", "p")] if is_match else [])
    assert "p'" not in repr(credentials)


@pytest.mark.parametrize("text", ["", "[]", '{"auths": 5}', '{"auths": {"a": {"auth": "***"}}}'])
def test_invalid_docker_configurations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a Docker configuration"):
        read_docker_config(text.encode())
