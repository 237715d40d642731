"""The image manager (`pkg/kubelet/images`): ensures images of containers and image volumes according to their pull
policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NamedTuple

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer, as_container
from sampan.api.types.core_v1 import Container, Pod, Secret
from sampan.host.clock import Clock
from sampan.kubelet.agent.image_pull_records import (
    NEVER_VERIFY_PRELOADED,
    ImagePullRecords,
    PullSecret,
    may_use_image,
    must_verify,
)
from sampan.kubelet.container_starter import PULL_BACK_OFF
from sampan.kubelet.objects import NotSynced, PodObjects
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.records import PodRecord
from sampan.machinery.events import NORMAL, WARNING
from sampan.runtimes.contract import ImageInfo, Runtime, RuntimeFailure
from sampan.runtimes.images.credentials import Keyring, RegistryCredentials, read_docker_config
from sampan.runtimes.images.reference import parse_reference

log = logging.getLogger(__name__)

NEVER_PULL, PULL_FAILED = "ErrImageNeverPull", "ErrImagePull"
_KEYS = (".dockerconfigjson", ".dockercfg")


class SecretKeyring(NamedTuple):
    """An image pull secret and the credentials that it contains."""

    secret: Secret
    keyring: Keyring


class ImageManager:
    def __init__(
        self,
        *,
        runtime: Runtime,
        objects: PodObjects,
        events: PodEvents,
        clock: Clock,
        max_parallel_pulls: int,
        pulled: ImagePullRecords,
        policy: str = NEVER_VERIFY_PRELOADED,
        listed: Sequence[str] = (),
        node_keyring: Keyring | None = None,
    ) -> None:
        """`max_parallel_pulls` limits concurrent pulls; 0 means unlimited. `policy` determines which pods must prove
        that they may use an image that is already present. `listed` are the images that are exempt from that.
        """
        self._pulled, self._policy, self._listed = pulled, policy, listed
        self._runtime, self._objects, self._events, self._clock = runtime, objects, events, clock
        self._pull_slots: AbstractAsyncContextManager[Any] = (
            asyncio.Semaphore(max_parallel_pulls) if max_parallel_pulls else nullcontext()
        )
        self._node_keyring = node_keyring or Keyring()

    async def ensure(self, record: PodRecord, container: AnyContainer) -> ImageInfo:
        """Ensure the image of the container and those of its image volumes, and return the former. Raise RuntimeFailure
        with the reason for the container status.
        """
        try:
            for volume in _volumes(record.pod, container):
                await self._ensure(record, volume)
            return await self._ensure(record, container)
        except RuntimeFailure as failure:
            self._events.record_failed(record.node, record.pod, container, failure.reason)
            raise

    async def _ensure(self, record: PodRecord, container: AnyContainer) -> ImageInfo:
        policy = container.imagePullPolicy or "IfNotPresent"
        image = None if policy == "Always" else await self._runtime.image(container.image)
        if image is not None and await self._may_use(record.pod, container.image, image):
            name = gotext.quote(container.image)
            text = f"Container image {name} already present on machine and can be accessed by the pod"
            self._events.record_container_event(record.node, record.pod, container, NORMAL, "Pulled", text)
            return image
        if policy == "Never":
            text = f"Container image {gotext.quote(container.image)} is not present with pull policy of Never"
            self._events.record_container_event(record.node, record.pod, container, WARNING, NEVER_PULL, text)
            raise RuntimeFailure(NEVER_PULL, text)
        return await self._pull(record, container)

    async def _pull(self, record: PodRecord, container: AnyContainer) -> ImageInfo:
        node, pod, began = record.node, record.pod, self._clock.monotonic()
        back_off = record.progress.pull_back_off(container.image)
        if back_off.remaining_s(back_off.since, began) > 0:
            self._events.record_pull_back_off(node, pod, container)
            text = f"Back-off pulling image {gotext.quote(container.image)}"
            raise RuntimeFailure(PULL_BACK_OFF, f"{text}: {back_off.why}" if back_off.why else text)
        self._events.record_pulling(node, pod, container)
        try:
            keyrings = await self._keyrings(pod)
            async with self._pull_slots:
                turn = self._clock.monotonic()
                image = await self._pull_with(keyrings, pod, container)
        except RuntimeFailure as failure:
            now = self._clock.monotonic()
            back_off.lengthen(now, now)
            back_off.why = f"{failure.reason}: {failure.message}"
            self._events.record_pull_failed(node, pod, container, failure.message)
            if missing := await self._find_missing_secrets(pod):
                self._events.record_missing_pull_secrets(node, pod, missing)
            raise
        now = self._clock.monotonic()
        self._events.record_pull_done(node, pod, container, image.size, took_s=now - turn, waited_s=turn - began)
        return image

    async def _pull_with(self, keyrings: Sequence[SecretKeyring], pod: Pod, container: AnyContainer) -> ImageInfo:
        """Pull the image and record which credentials were used. The pull intent is kept until then, so that the image
        is never taken for a preloaded one.
        """
        name, keyring = (
            container.image,
            Keyring.merge([*(keyring.keyring for keyring in keyrings), self._node_keyring]),
        )
        try:
            self._pulled.start_pull(name)
        except OSError as error:
            raise RuntimeFailure(PULL_FAILED, f"failed to record image pull intent: {error}") from None
        try:
            pulled = await self._runtime.pull_image(pod, as_container(container), keyring)
            image = await self._runtime.image(pulled.reference) or await self._runtime.image(name)
            if image is None:
                raise RuntimeFailure(PULL_FAILED, f"image {name} was removed after it was pulled")
        except BaseException:
            self._pulled.end_pull(name)
            raise
        try:
            await self._record_pull(keyrings, name, image, pulled.credentials)
        except OSError as error:
            log.error("cannot save the pull record of image %s: %s", name, error)
        else:
            self._pulled.end_pull(name)
        return image

    async def _may_use(self, pod: Pod, name: str, image: ImageInfo) -> bool:
        """Whether the pod may use an image that is present on the node, because it could have pulled
        the image itself.
        """
        record = await asyncio.to_thread(self._pulled.read, image.id)
        is_pulled = record is not None or self._pulled.is_being_pulled(name)
        if not must_verify(self._policy, self._listed, name, is_pulled=is_pulled):
            return True
        if may_use_image(record, name, _applicable_secrets(await self._keyrings(pod), name)):
            return True
        log.info(
            "image %s is present, but pod %s must prove access to it with pull credentials", name, pod.metadata.name
        )
        return False

    async def _record_pull(
        self, keyrings: Sequence[SecretKeyring], name: str, image: ImageInfo, by: RegistryCredentials | None
    ) -> None:
        """Record the pull. An image pulled without credentials, or with those of the node, is available to all pods.
        `keyrings` are the credentials at the time of the pull; the secrets may have changed since.
        """
        own = _applicable_secrets(keyrings, name) if by is not None else []
        used = [secret for secret in own if by is not None and secret.credentialHash == _digest(by)][:1]
        await asyncio.to_thread(self._pulled.add_pull, image.id, name, used, self._clock.now())

    async def _find_missing_secrets(self, pod: Pod) -> list[str]:
        """Return the names of the pod's image pull secrets that do not exist."""
        names = [reference.name for reference in pod.spec.imagePullSecrets if reference.name]
        return [name for name in names if await self._secret(pod, name) is None]

    async def _keyrings(self, pod: Pod) -> list[SecretKeyring]:
        """Return the credentials of the pod's image pull secrets that exist and can be parsed."""
        secrets = [await self._secret(pod, reference.name) for reference in pod.spec.imagePullSecrets if reference.name]
        return [keyring for secret in secrets if secret is not None and (keyring := _read(secret)) is not None]

    async def _secret(self, pod: Pod, name: str) -> Secret | None:
        try:
            return await self._objects.secret(pod.metadata.namespace, name)
        except NotSynced as error:
            log.warning("cannot use image pull secret %s/%s: %s", pod.metadata.namespace, name, error)
            return None


def _read(secret: Secret) -> SecretKeyring | None:
    data = next((secret.data[key] for key in _KEYS if key in secret.data), b"")
    try:
        return SecretKeyring(secret, read_docker_config(data)) if data else None
    except ValueError as error:
        log.warning("cannot use image pull secret %s/%s: %s", secret.metadata.namespace, secret.metadata.name, error)
        return None


def _applicable_secrets(keyrings: Sequence[SecretKeyring], name: str) -> list[PullSecret]:
    """Return a PullSecret for each credential that applies to the image."""
    reference = parse_reference(name)
    return [
        PullSecret(secret.metadata.uid, secret.metadata.namespace, secret.metadata.name, _digest(credentials))
        for secret, keyring in keyrings
        for credentials in keyring.find(reference)
    ]


def _digest(credentials: RegistryCredentials) -> str:
    return hashlib.sha256("\0".join(credentials).encode()).hexdigest()


def _volumes(pod: Pod, container: AnyContainer) -> list[Container]:
    """Return the images that the container mounts, each as a nameless container so that its events refer to the pod."""
    sources = {volume.name: volume.image for volume in pod.spec.volumes}
    images = [sources.get(mount.name) for mount in container.volumeMounts]
    return [
        Container(image=source.reference, imagePullPolicy=source.pullPolicy) for source in images if source is not None
    ]
