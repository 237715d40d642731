"""Hostile registries: redirects, token services, indexes and manifests."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from sampan.api import limits
from sampan.host.clock import RealClock
from sampan.runtimes.images import ImageStore, parse_reference
from sampan.runtimes.images.credentials import Keyring, read_docker_config
from sampan.runtimes.images.manifests import OCI_INDEX
from sampan.runtimes.images.pull import ImagePuller, PullFailed
from tests.runtimes.images.builders import MadeImage, digest
from tests.runtimes.images.registry import FakeRegistry, serving

NO_CREDENTIALS = Keyring()


class RedirectingRegistry(FakeRegistry):
    """A registry that redirects requests, and records the requests that it receives."""

    def __init__(self, location: Callable[[str], str] = lambda path: "", auth: str = "") -> None:
        super().__init__(auth)
        self.location = location
        self.received: list[tuple[str, str]] = []

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.received.append((request.path, request.headers.get("Authorization", "")))
        is_open = request.path == "/token" or not self._refusal(request)
        if is_open and (location := self.location(request.path)):
            return web.Response(status=307, headers={"Location": location}, body=b"redirect")
        return await super().respond(request)


def image() -> MadeImage:
    return MadeImage({"etc/one": b"1" * 5000})


def keyring(address: str) -> Keyring:
    auth = base64.b64encode(b"may:secret").decode()
    return read_docker_config(json.dumps({"auths": {address: {"auth": auth}}}).encode())


def run_with_puller(directory: Path, work: Callable[[ImagePuller, ImageStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = ImageStore(directory / "images")
        async with asyncio.timeout(60), ImagePuller(store=store, clock=RealClock()) as puller:
            await work(puller, store)

    asyncio.run(main())


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_a_redirect_to_another_host_is_followed_without_credentials(tmp_path: Path, auth: str) -> None:
    pushed, other = image(), RedirectingRegistry()
    other.add("team/app", "1", pushed)

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(other) as other_address:
            registry = RedirectingRegistry(
                lambda path: f"http://{other_address}{path}" if "/blobs/" in path else "", auth
            )
            registry.add("team/app", "1", pushed)
            async with serving(registry) as address:
                await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))
        assert [path for path, _ in other.received if "/blobs/" in path]
        assert {authorization for _, authorization in other.received} == {""}

    run_with_puller(tmp_path, work)


def test_redirect_target_that_requests_authentication_gets_no_credentials(tmp_path: Path) -> None:
    pushed, other = image(), RedirectingRegistry(auth="basic")
    other.add("team/app", "1", pushed)

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(other) as other_address:
            registry = RedirectingRegistry(lambda path: f"http://{other_address}{path}" if "/blobs/" in path else "")
            registry.add("team/app", "1", pushed)
            async with serving(registry) as address:
                with pytest.raises(PullFailed, match="401 authentication is required"):
                    await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))
        assert {authorization for _, authorization in other.received} == {""}

    run_with_puller(tmp_path, work)


def test_response_of_a_redirect_target_is_not_in_the_error(tmp_path: Path) -> None:
    """Otherwise events of a pod would show responses of services in the node's network."""

    async def secrets(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=403, text="the metadata service's secret")

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        inner = FakeRegistry()
        inner.respond = secrets  # type: ignore[method-assign]
        async with serving(inner) as other_address:
            registry = RedirectingRegistry(lambda path: f"http://{other_address}/latest")
            async with serving(registry) as address:
                with pytest.raises(PullFailed, match="403 access is denied") as caught:
                    await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert "secret" not in str(caught.value)

    run_with_puller(tmp_path, work)


@pytest.mark.parametrize("location", ["file:///etc/shadow", "ftp://127.0.0.1/x", "gopher://x", "data:,x"])
def test_redirect_to_a_scheme_other_than_http_is_rejected(tmp_path: Path, location: str) -> None:
    registry = RedirectingRegistry(lambda path: location)

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="redirects to"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)

    run_with_puller(tmp_path, work)


def test_number_of_redirects_is_limited(tmp_path: Path) -> None:
    registry = RedirectingRegistry(lambda path: f"{path}x")

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="stopped after 10 redirects"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert len(registry.received) == limits.REGISTRY_REDIRECTS + 1

    run_with_puller(tmp_path, work)


def test_redirect_of_a_token_service_is_not_followed(tmp_path: Path) -> None:
    other = RedirectingRegistry()

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(other) as other_address:
            registry = RedirectingRegistry(
                lambda path: f"http://{other_address}/token" if path == "/token" else "", "bearer"
            )
            async with serving(registry) as address:
                with pytest.raises(PullFailed, match="307"):
                    await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))
        assert other.received == []

    run_with_puller(tmp_path, work)


def test_size_of_a_token_response_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REGISTRY_TOKEN_BYTES", 10)
    registry = FakeRegistry("bearer")

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="larger than 10 bytes"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), keyring(address))

    run_with_puller(tmp_path, work)


def test_deeply_nested_indexes_of_a_registry_are_rejected(tmp_path: Path) -> None:
    registry, data = FakeRegistry(), b"{}"
    for _ in range(30):
        rows = [{"mediaType": OCI_INDEX, "digest": digest(data), "size": len(data)}]
        data = json.dumps({"mediaType": OCI_INDEX, "manifests": rows}).encode()
        registry.documents[f"/v2/team/app/manifests/{digest(data)}"] = data
    registry.documents["/v2/team/app/manifests/1"] = data

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="this is not a manifest"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert len(registry.requests) <= 2 * (limits.IMAGE_INDEX_DEPTH + 1)

    run_with_puller(tmp_path, work)


@pytest.mark.parametrize("name", ["sha256:../../../secrets", "../../x", "sha256:" + "a" * 63])
def test_invalid_layer_digest_is_rejected_before_the_download(tmp_path: Path, name: str) -> None:
    registry, pushed = FakeRegistry(), image()
    manifest = json.loads(pushed.manifest)
    manifest["layers"][0]["digest"] = name
    registry.documents["/v2/team/app/manifests/1"] = json.dumps(manifest).encode()

    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(registry) as address:
            with pytest.raises(PullFailed, match="not a digest"):
                await puller.pull(parse_reference(f"{address}/team/app:1"), NO_CREDENTIALS)
        assert set(registry.requests) == {"/v2/team/app/manifests/1"}

    run_with_puller(tmp_path, work)


def test_failed_pulls_leave_no_locks(tmp_path: Path) -> None:
    async def work(puller: ImagePuller, store: ImageStore) -> None:
        async with serving(FakeRegistry()) as address:
            names = [f"{address}/team/app:{number}" for number in range(20)] * 2
            pulls = [puller.pull(parse_reference(name), NO_CREDENTIALS) for name in names]
            assert all(
                isinstance(result, PullFailed) for result in await asyncio.gather(*pulls, return_exceptions=True)
            )
        assert len(puller._locks) == 0

    run_with_puller(tmp_path, work)
