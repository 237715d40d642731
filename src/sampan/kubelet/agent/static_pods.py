"""Pure conversion of manifests to static pods, and of static pods to mirror pods (`pkg/kubelet/config/common.go`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from sampan.api import times
from sampan.api.codec import json
from sampan.api.semantics.pod_references import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    CONFIG_SEEN,
    CONFIG_SOURCE,
    referenced_resource,
)
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.meta_v1 import OwnerReference

FILE, HTTP = "file", "http"


class BadManifest(ValueError):
    """The manifest is not a valid pod; the message says why."""


def read_pods(text: str, source: str, node: str, now: float) -> list[Pod]:
    """Parse one pod, several YAML documents, or a PodList. Raise BadManifest if any of it is invalid."""
    try:
        documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError) as error:
        raise BadManifest(f"neither JSON nor YAML: {error}") from None
    try:
        return [_static(item, source, node, now) for document in documents for item in _items(document)]
    except BadManifest:
        raise
    except (
        AttributeError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:  # A field has the wrong type, for example a string instead of a map.
        raise BadManifest(f"this is not a pod: {error}") from None


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


def _static(item: dict[str, Any], source: str, node: str, now: float) -> Pod:
    meta, spec = dict(item.get("metadata") or {}), _defaulted(item.get("spec") or {})
    digest = hashlib.md5(
        msgspec.json.encode([node, source, meta, spec], order="sorted"), usedforsecurity=False
    ).hexdigest()
    uid = str(meta.get("uid") or digest)
    if not meta.get("name"):
        raise BadManifest("the pod has no name")
    meta |= {"name": f"{meta['name']}-{node}", "namespace": meta.get("namespace") or "default", "uid": uid}
    for key in ("name", "namespace", "uid"):
        if "/" in str(meta[key]) or str(meta[key]).startswith("."):  # These become names of directories.
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
    if kind := referenced_resource(pod.spec):
        raise BadManifest(f"pod {meta['name']}: static pods may not reference {kind}")
    return pod


def _defaulted(spec: Mapping[str, Any]) -> dict[str, Any]:
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
            defaulted[kind] = [_container(container) for container in defaulted[kind]]
    return defaulted


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
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


# -- mirror pods -----------------------------------------------------------------------------------------------------


def mirror_of(pod: Pod, node: Node) -> Pod:
    """Return the mirror pod of a static pod."""
    meta = msgspec.structs.replace(
        pod.metadata,
        uid="",
        annotations={**pod.metadata.annotations, CONFIG_MIRROR: pod.metadata.annotations[CONFIG_HASH]},
        ownerReferences=[
            OwnerReference(
                apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
            )
        ],
    )
    return msgspec.structs.replace(pod, metadata=meta)


def is_mirror_of(mirror: Pod, pod: Pod) -> bool:
    return mirror.metadata.annotations.get(CONFIG_MIRROR) == pod.metadata.annotations[CONFIG_HASH]
