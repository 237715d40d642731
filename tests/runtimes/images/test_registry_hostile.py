"""Registries that send the node elsewhere."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from sampan.api import limits
from sampan.machinery.clock import RealClock
from sampan.runtimes.images import ImageStore, parse_reference
from sampan.runtimes.images.credentials import Keyring, read_docker_config
from sampan.runtimes.images.manifests import OCI_INDEX
from sampan.runtimes.images.pull import Puller, PullFailed
from tests.runtimes.images.builders import MadeImage, digest
from tests.runtimes.images.registry import FakeRegistry, serving

NOBODY = Keyring()


class Redirecting(FakeRegistry):
    """Sends whoever asks for a blob to somewhere else, and notes what it is sent itself."""

    def __init__(self, location: Callable[[str], str] = lambda path: "", auth: str = "") -> None:
        super().__init__(auth)
        self.location = location
        self.sent: list[tuple[str, str]] = []

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.sent.append((request.path, request.headers.get("Authorization", "")))
        is_open = request.path == "/token" or not self._refusal(request)
        if is_open and (location := self.location(request.path)):
            return web.Response(status=307, headers={"Location": location}, body=b"go there")
        return await super().respond(request)


def image() -> MadeImage:
    return MadeImage({"etc/one": b"1" * 5000})


def keyring(address: str) -> Keyring:
    auth = base64.b64encode(b"may:secret").decode()
    return read_docker_config(json.dumps({"auths": {address: {"auth": auth}}}).encode())


def play(directory: Path, work: Callable[[Puller, ImageStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = ImageStore(directory / "images")
        async with asyncio.timeout(60), Puller(store=store, clock=RealClock()) as puller:
            await work(puller, store)

    asyncio.run(main())


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_a_redirect_to_another_host_is_followed_without_credentials(tmp_path: Path, auth: str) -> None:
    pushed, other = image(), Redirecting()
    other.add("team/app", "1", pushed)

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(other) as elsewhere:
            registry = Redirecting(lambda path: f"http://{elsewhere}{path}" if "/blobs/" in path else "", auth)
            registry.add("team/app", "1", pushed)
            async with serving(registry) as address:
                await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))
        assert [path for path, _ in other.sent if "/blobs/" in path]
        assert {authorization for _, authorization in other.sent} == {""}

    play(tmp_path, work)


def test_a_host_that_a_registry_sends_us_to_does_not_learn_who_we_are(tmp_path: Path) -> None:
    """It asks for proof of identity itself."""
    pushed, other = image(), Redirecting(auth="basic")
    other.add("team/app", "1", pushed)

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(other) as elsewhere:
            registry = Redirecting(lambda path: f"http://{elsewhere}{path}" if "/blobs/" in path else "")
            registry.add("team/app", "1", pushed)
            async with serving(registry) as address:
                with pytest.raises(PullFailed, match="401 authentication is required"):
                    await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))
        assert {authorization for _, authorization in other.sent} == {""}

    play(tmp_path, work)


def test_the_answer_of_a_host_that_a_registry_sends_us_to_is_not_shown(tmp_path: Path) -> None:
    """Else a pod's events would tell what services of the node's network answer."""

    async def secrets(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=403, text="the metadata service's treasure")

    async def work(puller: Puller, store: ImageStore) -> None:
        inner = FakeRegistry()
        inner.respond = secrets  # type: ignore[method-assign]
        async with serving(inner) as elsewhere:
            registry = Redirecting(lambda path: f"http://{elsewhere}/latest")
            async with serving(registry) as address:
                with pytest.raises(PullFailed, match="403 access is denied") as caught:
                    await puller.pull(parse_reference(f"{address}/team/app:1"), NOBODY)
        assert "treasure" not in str(caught.value)

    play(tmp_path, work)


@pytest.mark.parametrize("location", ["file:///etc/shadow", "ftp://127.0.0.1/x", "gopher://x", "data:,x"])
def test_a_redirect_to_something_that_is_not_http_is_refused(tmp_path: Path, location: str) -> None:
    registry = Redirecting(lambda path: location)

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="redirects to"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NOBODY)

    play(tmp_path, work)


def test_redirects_without_end_are_given_up(tmp_path: Path) -> None:
    registry = Redirecting(lambda path: f"{path}x")

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="stopped after 10 redirects"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NOBODY)
        assert len(registry.sent) == limits.REGISTRY_REDIRECTS + 1

    play(tmp_path, work)


def test_a_token_service_does_not_pass_credentials_on(tmp_path: Path) -> None:
    other = Redirecting()

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(other) as elsewhere:
            registry = Redirecting(lambda path: f"http://{elsewhere}/token" if path == "/token" else "", "bearer")
            async with serving(registry) as address:
                with pytest.raises(PullFailed, match="307"):
                    await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))
        assert other.sent == []

    play(tmp_path, work)


def test_a_token_service_that_does_not_stop_talking_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REGISTRY_TOKEN_BYTES", 10)
    registry = FakeRegistry("bearer")

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="larger than 10 bytes"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))

    play(tmp_path, work)


def test_a_registry_of_indexes_that_lead_to_one_another_is_given_up(tmp_path: Path) -> None:
    registry, data = FakeRegistry(), b"{}"
    for _ in range(30):
        rows = [{"mediaType": OCI_INDEX, "digest": digest(data), "size": len(data)}]
        data = json.dumps({"mediaType": OCI_INDEX, "manifests": rows}).encode()
        registry.documents[f"/v2/team/app/manifests/{digest(data)}"] = data
    registry.documents["/v2/team/app/manifests/1"] = data

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="this is not a manifest"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NOBODY)
        assert len(registry.requests) <= 2 * (limits.IMAGE_INDEX_DEPTH + 1)

    play(tmp_path, work)


@pytest.mark.parametrize("name", ["sha256:../../../secrets", "../../x", "sha256:" + "a" * 63])
def test_a_manifest_whose_content_has_another_name_is_refused_before_it_is_asked_for(tmp_path: Path, name: str) -> None:
    registry, pushed = FakeRegistry(), image()
    manifest = json.loads(pushed.manifest)
    manifest["layers"][0]["digest"] = name
    registry.documents["/v2/team/app/manifests/1"] = json.dumps(manifest).encode()

    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="not a digest"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NOBODY)
        assert set(registry.requests) == {"/v2/team/app/manifests/1"}

    play(tmp_path, work)


def test_locks_of_pulls_do_not_outlive_them(tmp_path: Path) -> None:
    async def work(puller: Puller, store: ImageStore) -> None:
        async with serving(FakeRegistry()) as address:
            names = [f"{address}/team/app:{number}" for number in range(20)] * 2
            pulls = [puller.pull(parse_reference(name), NOBODY) for name in names]
            assert all(
                isinstance(result, PullFailed) for result in await asyncio.gather(*pulls, return_exceptions=True)
            )
        assert len(puller._locks) == 0

    play(tmp_path, work)
