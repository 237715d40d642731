"""ImagePolicyWebhook: a webhook decides which images may run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery import errors
from sampan.machinery.client.access import Access
from sampan.machinery.client.transport import ConnectionFailed, Request

FAILED_OPEN = "alpha.image-policy.k8s.io/failed-open"
"""The annotation of pods that were admitted because the webhook could not be reached."""
_ANNOTATION_INFIX = ".image-policy.k8s.io/"
_MAX_TTL_S = 30 * 60


class ImagePolicyWebhook:
    name = "ImagePolicyWebhook"

    def __init__(self, config: Mapping[str, Any]) -> None:
        policy = config.get("imagePolicy") or {}
        self._access = _access(policy)
        self._allow_s = _parse_ttl_s(policy, "allowTTL", 5 * 60)
        self._deny_s = _parse_ttl_s(policy, "denyTTL", 30)
        self._allows_by_default = bool(policy.get("defaultAllow"))
        self._responses: BoundedCache[bytes, tuple[float, dict[str, Any]]] = BoundedCache(
            max_entries=1024, max_entry_bytes=16 << 10
        )
        """The expiry time and the status of each cached response, by review spec."""

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod(resource) and operation in ("CREATE", "UPDATE") and subresource in ("", "ephemeralcontainers")

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        question = msgspec.json.encode(spec_of(pod, attributes), order="deterministic")
        try:
            status = await self._status(question, attributes.registry.clock.now())
        except (ConnectionFailed, errors.ApiError, msgspec.DecodeError) as error:
            if not self._allows_by_default:
                raise attributes.forbidden(str(error)) from error
            pod.metadata.annotations[FAILED_OPEN] = "true"
            return
        if not status.get("allowed"):
            raise attributes.forbidden(_denial(status.get("reason")))

    async def _status(self, question: bytes, now: float) -> dict[str, Any]:
        until, status = self._responses.get(question, (0.0, {}))
        if until > now:
            return status
        status = await _request_review(self._access, question)
        kept_s = self._allow_s if status.get("allowed") else self._deny_s
        self._responses.keep(question, (now + kept_s, status))
        return status


def _denial(reason: str | None) -> str:
    if not reason:
        return "one or more images rejected by webhook backend"
    return f"image policy webhook backend denied one or more images: {reason}"


def spec_of(pod: Pod, attributes: AdmissionAttributes) -> dict[str, Any]:
    """Return the spec of the ImageReview."""
    ephemeral = attributes.subresource == "ephemeralcontainers"
    listed = pod.spec.ephemeralContainers if ephemeral else [*(pod.spec.containers or ()), *pod.spec.initContainers]
    notes = {key: value for key, value in pod.metadata.annotations.items() if _ANNOTATION_INFIX in key}
    spec: dict[str, Any] = {"containers": [{"image": container.image} for container in listed]}
    return {**spec, **({"annotations": notes} if notes else {}), "namespace": attributes.namespace}


async def _request_review(access: Access, question: bytes) -> dict[str, Any]:
    from sampan.machinery.client.http import HttpTransport

    review = {"kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "spec": msgspec.Raw(question)}
    request = Request(
        method="POST", path="", headers={"Content-Type": "application/json"}, body=msgspec.json.encode(review)
    )
    async with HttpTransport(access) as service:
        response = await service.send(request)
    status = msgspec.json.decode(response.body(), type=dict[str, Any]).get("status")
    return status if isinstance(status, dict) else {}


def _access(policy: Mapping[str, Any]) -> Access:
    from sampan.machinery.client import kubeconfig

    path = policy.get("kubeConfigFile")
    if not path:
        raise ConfigurationError("ImagePolicyWebhook: imagePolicy.kubeConfigFile: is missing")
    try:
        return kubeconfig.load(Path(path))
    except (kubeconfig.KubeconfigError, OSError) as error:
        raise ConfigurationError(f"ImagePolicyWebhook: {error}") from None


def _parse_ttl_s(policy: Mapping[str, Any], name: str, otherwise: int) -> int:
    """Return for how many seconds a response is cached. In the configuration 0 means the default, and -1 no caching."""
    value = policy.get(name, 0)
    if value == 0:
        return otherwise
    if value == -1:
        return 0
    if not isinstance(value, int) or not 1 <= value <= _MAX_TTL_S:
        raise ConfigurationError(f"ImagePolicyWebhook: imagePolicy.{name}: must be between 1 and {_MAX_TTL_S} seconds")
    return value
