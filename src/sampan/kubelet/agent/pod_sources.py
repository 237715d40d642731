"""The pod sources of a kubelet (`pkg/kubelet/config`): the API server, a manifest directory or file, and a URL.

The conversion of manifests to static pods is pure.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from yarl import URL

from sampan.api import names
from sampan.api.codec import json
from sampan.api.semantics.pod_references import (
    CONFIG_HASH,
    CONFIG_SEEN,
    CONFIG_SOURCE,
    is_mirror_pod,
    referenced_resource,
)
from sampan.api.semantics.pods import all_containers
from sampan.api.types.core_v1 import Node, Pod, Service
from sampan.api.types.node_v1 import RuntimeClass
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.kubelet.admission import with_api_source
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.garbage_collection import Housekeeping
from sampan.kubelet.agent.static_pods import MirrorPods
from sampan.kubelet.records import NodeRecord
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery.client import Selection
from sampan.machinery.config_file import ConfigFileError, decode_config
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import HttpSession, get_following

if TYPE_CHECKING:
    from sampan.machinery.informer import Informer, InformerFactory

log = logging.getLogger(__name__)
_POLL_S = 1.0
"""Interval at which the manifest directory is checked for changes."""
_MAX_MANIFEST_BYTES = 10 << 20
"""Maximum size of a manifest file or HTTP response."""
Update = Callable[[str, Sequence[Pod]], None]
"""A function that receives the name of a source and all of its pods."""


class ApiPodSource:
    """Watches the pods that are bound to this node, from the registration of the node on. Before that only static pods
    run."""

    def __init__(
        self,
        *,
        node: NodeRecord,
        sync_loop: SyncLoop,
        mirrors: MirrorPods,
        housekeeping: Housekeeping,
        informers: InformerFactory,
    ) -> None:
        self._node, self._sync_loop, self._mirrors = node, sync_loop, mirrors
        self._housekeeping, self._informers = housekeeping, informers

    async def start(self, on_node: Callable[[Node | None, Node | None], None]) -> None:
        """Start the watches. The pod watch starts last, once the objects that pods refer to are known."""
        nodes: Informer[Node] = self._informers.for_kind(Node, Selection(fields=f"metadata.name={self._node.name}"))
        nodes.subscribe(on_node)
        for informer in (self._informers.for_kind(Service), self._informers.for_kind(RuntimeClass), nodes):
            await informer.synced.wait()
        pods = self._informers.for_kind(Pod, Selection(fields=f"spec.nodeName={self._node.name}"))
        await pods.synced.wait()
        await self._housekeeping.remove_orphans({pod.metadata.uid for pod in pods.lister})
        pods.subscribe(self._on_pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if is_mirror_pod(pod):
            self._mirrors.on_mirror(old, new)
        else:
            self._sync_loop.iteration(self._node, old, with_api_source(new) if new is not None else None)


class StaticPodSources:
    def __init__(self, *, config: AgentConfig, clock: Clock, update: Update) -> None:
        self._config, self._clock, self._update = config, clock, update
        self._last_state: object = None
        self._has_fetched_url = not config.static_url

    @property
    def are_known(self) -> bool:
        """Whether every source has delivered its pods at least once."""
        return self._has_fetched_url

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._config.static_pod_path is not None:
                group.create_task(self._watch_directory(self._config.static_pod_path))
            if self._config.static_url:
                group.create_task(self._watch_url())

    async def start(self) -> None:
        """Read the manifest directory once."""
        if self._config.static_pod_path is not None:
            await self._check_directory(self._config.static_pod_path)

    async def _watch_directory(self, place: Path) -> None:
        while True:
            await self._clock.sleep(min(_POLL_S, self._config.static_period_s))
            await self._check_directory(place)

    async def _check_directory(self, place: Path) -> None:
        try:
            now = await asyncio.to_thread(_state, place)
        except OSError as error:
            log.warning("cannot read static pods from %s: %s", place, error)
            return
        if now != self._last_state:
            self._last_state = now
            self._update(FILE, await asyncio.to_thread(self._read_manifests, place))

    def _read_manifests(self, place: Path) -> list[Pod]:
        pods = []
        for path in _files(place):
            try:
                with path.open("rb") as file:
                    text = _text(file.read(_MAX_MANIFEST_BYTES + 1))
                pods += read_pods(text, FILE, self._config.name, self._clock.now())
            except (OSError, BadManifest) as error:
                log.warning("cannot read static pods from %s: %s", path, error)
        return pods

    async def _watch_url(self) -> None:
        before = ""
        while True:
            try:
                text = await self._fetch()
                if text != before:
                    self._update(HTTP, read_pods(text, HTTP, self._config.name, self._clock.now()))
                    before = text
                self._has_fetched_url = True
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                log.warning("cannot read static pods from %s: %s", self._config.static_url, error)
            await self._clock.sleep(self._config.static_url_period_s)

    async def _fetch(self) -> str:
        headers = dict(self._config.static_url_headers)
        async with asyncio.timeout(10), HttpSession() as session:
            # The headers may contain credentials: with them, redirects are followed only on the same host.
            url = URL(self._config.static_url)
            async with get_following(session, url, headers, may_leave_host=not headers) as response:
                if response.status not in range(200, 207):
                    raise BadManifest(f"{response.url}: {response.status} {response.reason}")
                data = bytearray()
                async for piece in response.content.iter_any():
                    data += piece
                    if len(data) > _MAX_MANIFEST_BYTES:
                        break
        if not data:
            raise BadManifest("zero-length data received")
        return _text(bytes(data))


def _text(data: bytes) -> str:
    if len(data) > _MAX_MANIFEST_BYTES:
        raise BadManifest(f"more than {_MAX_MANIFEST_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadManifest(f"neither JSON nor YAML: {error}") from None


def _files(place: Path) -> list[Path]:
    """Return the manifest files. Hidden files are ignored."""
    if not place.is_dir():
        return [place] if place.exists() else []
    return sorted(path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))


def _state(place: Path) -> list[tuple[str, int, int]]:
    files = []
    for path in _files(place):
        try:
            status = os.stat(path)
        except OSError:
            continue
        files.append((str(path), status.st_mtime_ns, status.st_size))
    return files


# -- manifests (`pkg/kubelet/config/common.go`) -----------------------------------------------------------------------

FILE, HTTP = "file", "http"
_NEXT_DOCUMENT = re.compile(r"^---(?:[ \t][^\n]*)?$", re.MULTILINE)


class BadManifest(ValueError):
    """The manifest is not a valid pod; the message says why."""


def read_pods(text: str, source: str, node: str, now: float) -> list[Pod]:
    """Parse a manifest: one pod, several YAML documents, or a PodList. Raise BadManifest if a part of it is invalid."""
    try:
        documents = [decode_config(document) for document in _NEXT_DOCUMENT.split(text)]
    except ConfigFileError as error:
        raise BadManifest(f"neither JSON nor YAML: {error}") from None
    try:
        return [_static_pod(item, source, node, now) for document in documents for item in _items(document)]
    except BadManifest:
        raise
    except (
        AttributeError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:  # A field has the wrong type, for example a string instead of a map.
        raise BadManifest(f"cannot decode the pod: {error}") from None


def _items(document: Any) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if not isinstance(document, dict) or document.get("apiVersion") != "v1":
        raise BadManifest("want a Pod or a PodList of v1")
    match document.get("kind"):
        case "Pod":
            yield document
        case "PodList":
            yield from ({**item, "kind": "Pod", "apiVersion": "v1"} for item in document.get("items") or ())
        case other:
            raise BadManifest(f"want a Pod or a PodList, not a {other}")


def _static_pod(item: dict[str, Any], source: str, node: str, now: float) -> Pod:
    meta, spec = dict(item.get("metadata") or {}), _with_defaults(item.get("spec") or {})
    digest = hashlib.md5(
        msgspec.json.encode([node, source, meta, spec], order="sorted"), usedforsecurity=False
    ).hexdigest()
    uid = str(meta.get("uid") or digest)
    if not meta.get("name"):
        raise BadManifest("the pod has no name")
    meta |= {"name": f"{meta['name']}-{node}", "namespace": meta.get("namespace") or "default", "uid": uid}
    for key in ("name", "namespace", "uid"):
        if "/" in str(meta[key]) or str(meta[key]).startswith("."):  # The values become names of directories.
            raise BadManifest(f"metadata.{key}: Invalid value: {meta[key]!r}")
    own = {CONFIG_SOURCE: source, CONFIG_HASH: digest, CONFIG_SEEN: times.format_time(now)}
    meta["annotations"] = {**(meta.get("annotations") or {}), **own}
    spec["nodeName"] = node
    spec["tolerations"] = [*(spec.get("tolerations") or ()), {"operator": "Exists", "effect": "NoExecute"}]
    try:
        pod, strict = json.decode_value({**item, "metadata": meta, "spec": spec, "status": {}}, Pod)
    except (ValueError, TypeError) as error:
        raise BadManifest(f"pod {meta['name']}: {error}") from None
    if strict:
        raise BadManifest(f"pod {meta['name']}: {'; '.join(strict)}")
    if not pod.spec.containers:
        raise BadManifest(f"pod {meta['name']}: spec.containers: Required value")
    for named in (*all_containers(pod.spec), *pod.spec.volumes):
        if names.dns1123_label(named.name):  # The names become names of directories.
            raise BadManifest(f"pod {meta['name']}: Invalid value: {named.name!r}: must be an RFC 1123 label")
    if kind := referenced_resource(pod.spec):
        raise BadManifest(f"pod {meta['name']}: static pods may not reference {kind}")
    return pod


def _with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Apply those defaults of the API server that matter to the kubelet."""
    defaulted = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "schedulerName": "default-scheduler",
        "securityContext": {},
        **spec,
    }
    for kind in ("containers", "initContainers"):
        if defaulted.get(kind):
            defaulted[kind] = [_container_with_defaults(container) for container in defaulted[kind]]
    return defaulted


def _container_with_defaults(container: Mapping[str, Any]) -> dict[str, Any]:
    image = str(container.get("image", ""))
    is_latest = "@" not in image and (":" not in image.rpartition("/")[2] or image.endswith(":latest"))
    defaulted = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if is_latest else "IfNotPresent",
        "resources": {},
        **container,
    }
    limits, requests = (defaulted["resources"].get(kind) or {} for kind in ("limits", "requests"))
    if limits:
        defaulted["resources"] = {**defaulted["resources"], "requests": {**limits, **requests}}
    defaulted["ports"] = [{"protocol": "TCP", **port} for port in defaulted.get("ports") or ()]
    return defaulted
