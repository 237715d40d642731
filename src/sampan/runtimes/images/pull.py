"""Pull images from registries and their mirrors into the image store, fetching only missing content."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api import limits
from sampan.host.clock import Clock
from sampan.host.keyed_locks import KeyedLocks
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.runtimes.images import manifests
from sampan.runtimes.images.credentials import Keyring, RegistryCredentials
from sampan.runtimes.images.manifests import BadImage, ImageDescriptor, ImageManifest, Platform
from sampan.runtimes.images.reference import ImageReference, is_digest
from sampan.runtimes.images.registry import RegistryClient, RegistryError
from sampan.runtimes.images.store import ImageStore, StoredImage

_MAX_CONCURRENT = 3
_ATTEMPTS = 3
_LOCAL = ("localhost", "127.0.0.1", "[::1]")

_Progress = dict[str, tuple[int, int]]
"""The bytes of each missing part of an image that have arrived so far, and its size, by digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConfig:
    mirrors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Mirrors to try before a registry; the key `*` applies to all registries."""
    plain_http: frozenset[str] = frozenset()
    """Registries that are contacted over HTTP instead of HTTPS. Registries on the loopback address always are."""
    platform: Platform = field(default_factory=manifests.detect_platform)


class PullFailed(Exception):
    """The image cannot be pulled; the message gives the reason."""


class ImagePuller:
    """Pulls images. `async with Puller(…) as puller:` keeps connections open for the duration of the block. Concurrent
    pulls of the same image are serialized, so that its content is fetched once."""

    def __init__(self, *, store: ImageStore, clock: Clock, config: PullConfig | None = None) -> None:
        self._store, self._clock, self._config = store, clock, config or PullConfig()
        self._session: aiohttp.ClientSession | None = None
        self._locks = KeyedLocks()
        self._progress: dict[ImageReference, _Progress] = {}

    async def __aenter__(self) -> ImagePuller:
        import ssl

        tls = await asyncio.to_thread(ssl.create_default_context)  # This reads all CA certificates of the machine.
        connector = aiohttp.TCPConnector(ssl=tls, limit_per_host=_MAX_CONCURRENT * 2)
        self._session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": "sampan"})
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def pull(self, reference: ImageReference, keyring: Keyring) -> StoredImage:
        """Pull an image. Raise PullFailed with the errors of all registries and mirrors that were tried."""
        return (await self.pull_with_keyring(reference, keyring))[0]

    async def pull_with_keyring(
        self, reference: ImageReference, keyring: Keyring
    ) -> tuple[StoredImage, RegistryCredentials | None]:
        """Pull an image, and return it with the credentials that were accepted."""
        async with self._locks.held(str(reference)):
            errors = []
            try:
                for registry, credentials in self._list_sources(reference, keyring):
                    progress = self._progress[reference] = {}
                    try:
                        return await self._fetch(registry, reference, progress), credentials
                    except (RegistryError, BadImage) as error:
                        errors.append(str(error))
            finally:
                self._progress.pop(reference, None)
            raise PullFailed("; ".join(dict.fromkeys(errors)))

    def progress(self, reference: ImageReference) -> tuple[int, int] | None:
        """Return how many bytes of an image that is being pulled have arrived, and how many are fetched in all; None
        while that is unknown."""
        parts = self._progress.get(reference)
        return (sum(done for done, _ in parts.values()), sum(size for _, size in parts.values())) if parts else None

    def _list_sources(
        self, reference: ImageReference, keyring: Keyring
    ) -> list[tuple[RegistryClient, RegistryCredentials | None]]:
        mirrors = self._config.mirrors.get(reference.registry, self._config.mirrors.get("*", ()))
        places: list[tuple[str, RegistryCredentials | None]] = [(mirror, None) for mirror in mirrors]
        places += [(reference.registry, credentials) for credentials in (*keyring.find(reference), None)]
        return [(self._registry(host, reference, who), who) for host, who in places]

    def _registry(
        self, place: str, reference: ImageReference, credentials: RegistryCredentials | None
    ) -> RegistryClient:
        assert self._session is not None, "enter the puller before using it"
        is_plain = place.startswith("http://")
        host = place.split("://", 1)[-1].rstrip("/")
        is_plain = is_plain or host in self._config.plain_http or host.rpartition(":")[0] in _LOCAL or host in _LOCAL
        return RegistryClient(
            session=self._session,
            host=host,
            repository=reference.repository,
            credentials=credentials,
            is_plain=is_plain,
        )

    async def _fetch(self, registry: RegistryClient, reference: ImageReference, progress: _Progress) -> StoredImage:
        """Fetch an image from one registry. The registry is contacted even if the image is in the store: its response
        proves that the user may pull the image."""
        version = reference.digest or reference.tag
        digest, data = await self._fetch_manifest(registry, version)
        outer = digest
        for _ in range(limits.IMAGE_INDEX_DEPTH):
            if manifests.media_type_of(data) not in manifests.INDEXES:
                break
            chosen = manifests.select_manifest(manifests.read_index(data), self._config.platform)
            digest, data = await self._manifest(registry, chosen.digest)
        await self._content(registry, manifests.read_manifest(data), progress)
        names = [str(reference._replace(digest=""))] if reference.tag and not reference.digest else []
        digests = [f"{reference.name}@{manifest_digest}" for manifest_digest in dict.fromkeys((outer, digest))]
        return self._store.add(digest, names=names, digests=digests, now=self._clock.now())

    async def _manifest(self, registry: RegistryClient, reference: str) -> tuple[str, bytes]:
        blobs = self._store.blobs
        if blobs.has(reference):
            return reference, blobs.read(reference)
        return await self._fetch_manifest(registry, reference)

    async def _fetch_manifest(self, registry: RegistryClient, reference: str) -> tuple[str, bytes]:
        """Fetch a manifest, and return its digest and content. A manifest requested by digest is verified. For a tag,
        any manifest that the registry returns is accepted."""
        data = await registry.manifest(reference)
        proof = reference if is_digest(reference) else ""
        return await asyncio.to_thread(self._store.blobs.put, data, proof), data

    async def _content(self, registry: RegistryClient, manifest: ImageManifest, progress: _Progress) -> None:
        slots = asyncio.Semaphore(_MAX_CONCURRENT)

        async def fetch(part: ImageDescriptor) -> None:
            async with slots:
                await self._blob(registry, part, progress)

        parts = {part.digest: part for part in (manifest.config, *manifest.layers)}
        missing = [part for part in parts.values() if not self._store.blobs.has(part.digest)]
        progress.update((part.digest, (0, part.size)) for part in missing)
        try:
            async with asyncio.TaskGroup() as group:
                for part in missing:
                    group.create_task(fetch(part))
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None

    async def _blob(self, registry: RegistryClient, part: ImageDescriptor, progress: _Progress) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._blob_once(registry, part, progress)
            except RegistryError as error:
                if attempt == _ATTEMPTS or error.code in (401, 403, 404):
                    raise

    async def _blob_once(self, registry: RegistryClient, part: ImageDescriptor, progress: _Progress) -> None:
        with self._store.blobs.writer(part.digest, size=part.size or None) as blob:
            async with registry.blob(part.digest) as pieces:
                async for data in pieces:
                    await asyncio.to_thread(blob.write, data)
                    progress[part.digest] = blob.size, part.size
