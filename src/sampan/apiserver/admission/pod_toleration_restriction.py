"""PodTolerationRestriction: adds the default tolerations of the namespace to pods and rejects tolerations it
forbids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_resources import BEST_EFFORT, qos_class
from sampan.api.semantics.taints import MEMORY_PRESSURE
from sampan.api.types.core_v1 import Namespace, Pod, Toleration
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_write
from sampan.apiserver.admission.runtime_class import TolerationCover, merge_tolerations
from sampan.machinery import errors

DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"


class PodTolerationRestriction:
    name = "PodTolerationRestriction"

    def __init__(self, *, default: Sequence[Toleration] = (), allowed: Sequence[Toleration] = ()) -> None:
        """`default` and `allowed` apply to namespaces without annotations."""
        self._default, self._allowed = default, allowed

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PodTolerationRestriction:
        try:
            default = msgspec.convert(config.get("default") or [], list[Toleration])
            return cls(default=default, allowed=msgspec.convert(config.get("whitelist") or [], list[Toleration]))
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"PodTolerationRestriction: {error}") from None

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_write(operation, resource, subresource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        extra: list[Toleration] = []
        if attributes.operation == "CREATE":
            defaults = tolerations_in(await _namespace(attributes), DEFAULTS)
            extra += self._default if defaults is None else defaults
        if qos_class(pod.spec) != BEST_EFFORT:
            extra.append(Toleration(key=MEMORY_PRESSURE, operator="Exists", effect="NoSchedule"))
        if extra:
            pod.spec.tolerations = merge_tolerations([*pod.spec.tolerations, *extra])
        await self.validate(attributes)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        namespace_tolerations = tolerations_in(await _namespace(attributes), ALLOWED)
        allowed = self._allowed if namespace_tolerations is None else namespace_tolerations
        cover = TolerationCover(allowed or ())
        if allowed and not all(map(cover.covers, pod.spec.tolerations)):
            scope = "cluster" if namespace_tolerations is None else "namespace"
            start = "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            raise errors.unexpected_error(f"{start} {scope} whitelist")


async def _namespace(attributes: AdmissionAttributes) -> Namespace:
    store = attributes.registry.open_store_of("", "v1", "Namespace")
    namespace: Namespace | None = await lookup.find(store, "", attributes.namespace)
    if namespace is None:
        raise errors.not_found("namespaces", attributes.namespace)
    return namespace


def tolerations_in(namespace: Namespace, annotation: str) -> list[Toleration] | None:
    """Return the tolerations in an annotation; None if the namespace does not have it."""
    text = namespace.metadata.annotations.get(annotation)
    if not text:
        return None if text is None else []
    try:
        return msgspec.json.decode(text, type=list[Toleration])
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.unexpected_error(str(error)) from None
