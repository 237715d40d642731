"""Shared parts of all volume plugins: configuration and collaborators (`VolumeHost` in `pkg/volume/plugins.go`), the
directory layout, which is that of the Kubernetes kubelet, and functions that wait.

Service account tokens for pods are requested here and cached in memory. A token is renewed after 80 % of its lifetime
or 24 hours, whichever comes first (`pkg/kubelet/token`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.authentication_v1 import (
    BoundObjectReference,
    TokenRequest,
    TokenRequestSpec,
    TokenRequestStatus,
)
from sampan.api.types.core_v1 import Pod, ServiceAccount
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.kubelet.objects import ObjectSource
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.mounter import Mounter
from sampan.kubelet.volumes.plugins.pod_certificates import PodCertificates
from sampan.kubelet.volumes.plugins.trust_bundles import TrustAnchors
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.informer import InformerFactory

_SUBPATHS = "volume-subpaths"
log = logging.getLogger(__name__)
_MAX_LIFETIME_S = 24 * 3600.0
_RETRY_S = 10.0
"""Retry interval after a failed renewal while the token is still valid."""


class ServiceAccountToken(NamedTuple):
    text: str
    expires_at: float
    renew_at: float

    def status(self) -> TokenRequestStatus:
        return TokenRequestStatus(token=self.text, expirationTimestamp=times.format_time(self.expires_at))


class TokenKey(NamedTuple):
    uid: str
    account: str
    audiences: tuple[str, ...]
    expiration_s: int | None


class TokenSource(Protocol):
    async def get(self, pod: Pod, audiences: Sequence[str], expiration_s: int | None) -> ServiceAccountToken:
        """Return a valid service account token of the pod. Raise VolumeOperationError if there is none."""

    def forget(self, uid: str) -> None:
        """Drop the tokens of a pod."""


class TokenManager:
    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._accounts, self._clock = client.for_kind(ServiceAccount), clock
        self._kept: dict[TokenKey, ServiceAccountToken] = {}

    async def get(self, pod: Pod, audiences: Sequence[str], expiration_s: int | None) -> ServiceAccountToken:
        """Return a service account token of the pod, renewed if it is due. If the renewal fails, return the old token
        until it expires. Raise VolumeOperationError if there is no valid token.
        """
        key = TokenKey(pod.metadata.uid, pod.spec.serviceAccountName, tuple(audiences), expiration_s)
        cached, now = self._kept.get(key), self._clock.now()
        if cached is not None and now < cached.renew_at:
            return cached
        try:
            token = await self._request_token(pod, key)
        except (errors.ApiError, ConnectionFailed) as error:
            if cached is None:
                raise VolumeOperationError(f"failed to fetch token: {error}") from error
            if now > cached.expires_at:
                raise VolumeOperationError(
                    f"token {_description(pod, key)} expired and refresh failed: {error}"
                ) from error
            log.warning("cannot renew service account token %s: %s", _description(pod, key), error)
            token = cached._replace(renew_at=now + _RETRY_S)
        self._kept[key] = token
        return token

    def forget(self, uid: str) -> None:
        for key in [key for key in self._kept if key.uid == uid]:
            del self._kept[key]

    async def _request_token(self, pod: Pod, key: TokenKey) -> ServiceAccountToken:
        meta = pod.metadata
        spec = TokenRequestSpec(
            audiences=list(key.audiences) or None,
            expirationSeconds=key.expiration_s,
            boundObjectRef=BoundObjectReference(kind="Pod", apiVersion="v1", name=meta.name, uid=meta.uid),
        )
        response: TokenRequest = await self._accounts.create_subresource(
            "token", key.account, TokenRequest(spec=spec), meta.namespace
        )
        expires_at = times.parse_time(response.status.expirationTimestamp or "")
        life_s = float(response.spec.expirationSeconds or key.expiration_s or 3600)
        return ServiceAccountToken(response.status.token, expires_at, renewal(expires_at, life_s))


def renewal(expires_at: float, life_s: float) -> float:
    """Return the time at which to renew a token. Pure."""
    return min(expires_at - life_s * 0.2, expires_at - life_s + _MAX_LIFETIME_S)


def _description(pod: Pod, key: TokenKey) -> str:
    return f'"{key.account}"/"{pod.metadata.namespace}"/{list(key.audiences)}/{key.expiration_s}'


class OnDisk(NamedTuple):
    """A volume that has a directory on disk, found there by its pod, plugin and name."""

    uid: str
    plugin: str
    inner: str


class VolumeLayout:
    def __init__(self, root: Path) -> None:
        self.root = root

    def pod(self, uid: str) -> Path:
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def volume(self, uid: str, plugin: str, inner: str) -> Path:
        return self.volumes(uid) / escape_name(plugin) / escape_name(inner)

    def notes(self, uid: str, plugin: str, name: str) -> Path:
        """Return the directory for the metadata that a plugin stores about a pod's volume."""
        return self.pod(uid) / "plugins" / escape_name(plugin) / name

    def subpaths(self, uid: str) -> Path:
        return self.pod(uid) / _SUBPATHS

    def subpath(self, uid: str, inner: str, container: str, index: int) -> Path:
        return self.subpaths(uid) / inner / container / str(index)

    def plugin(self, name: str) -> Path:
        """Return the directory of a plugin for the whole node; `name` starts with kubernetes.io/."""
        return self.root / "plugins" / name

    @property
    def registry(self) -> Path:
        """Directory in which external plugins create their registration sockets."""
        return self.root / "plugins_registry"

    def pods(self) -> Iterator[str]:
        """Yield the UIDs of pods that have or had volumes in this directory."""
        directory = self.root / "pods"
        for pod in sorted(directory.iterdir()) if directory.is_dir() else ():
            if any((pod / part).is_dir() for part in ("volumes", "volumeDevices", _SUBPATHS)):
                yield pod.name

    def volumes_of_pod(self, uid: str) -> Iterator[OnDisk]:
        directories = [path for path in (self.volumes(uid), self.pod(uid) / "volumeDevices") if path.is_dir()]
        for plugin in (plugin for directory in directories for plugin in sorted(directory.iterdir())):
            for volume in sorted(plugin.iterdir()) if plugin.is_dir() else ():
                yield OnDisk(uid, plugin.name.replace("~", "/"), volume.name.replace("~", "/"))


def escape_name(name: str) -> str:
    return name.replace("/", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeConfig:
    root: Path
    """Root directory of the kubelet's data."""
    node_name: str
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Allocatable resources of the node."""
    mount_timeout_s: float = 10.0
    """How long a pod worker waits for volumes before it syncs the pod again; mounting continues meanwhile."""
    expansion_check_period_s: float = 60.0
    """Interval at which claims in use are checked for expansion."""
    size_check_period_s: float = 10.0
    """Interval at which volumes with a size limit are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeHost:
    config: VolumeConfig
    layout: VolumeLayout
    mounter: Mounter
    client: Client
    informers: InformerFactory
    objects: ObjectSource
    tokens: TokenSource
    trust_bundles: TrustAnchors
    pod_certificates: PodCertificates
    clock: Clock


async def wait_for_event(clock: Clock, event: asyncio.Event, until: float) -> bool:
    """Wait until the event is set or the monotonic time `until` is reached. Return whether the event is set."""
    if clock.monotonic() >= until:
        return event.is_set()
    async with asyncio.TaskGroup() as group:
        waiter, sleeper = group.create_task(event.wait()), group.create_task(clock.sleep_monotonic(until))
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        sleeper.cancel()
    return event.is_set()
