"""Ratcheting: invalid values that an update may keep because the old object has them already.

The old object is examined only when a check fails, so a valid object costs nothing.
"""

from collections.abc import Mapping
from functools import cached_property

from sampan.api import names
from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import PodSpec
from sampan.api.values.quantity import parse
from sampan.apiserver.registry import validation
from sampan.apiserver.registry.podspec import affinity, resources, security
from sampan.apiserver.registry.podspec.pod_annotations import has_bad_deletion_cost


class PodValidationOptions:
    """The invalid values to tolerate in an update of `old`, which is None for a new object. `is_pod` is false for a pod
    template."""

    def __init__(
        self, old: PodSpec | None = None, old_annotations: Mapping[str, str] | None = None, *, is_pod: bool = False
    ) -> None:
        self._old, self._old_annotations = old, old_annotations
        self.is_pod = is_pod

    @cached_property
    def bad_deletion_cost(self) -> bool:
        return self._old_annotations is not None and has_bad_deletion_cost(self._old_annotations)

    @cached_property
    def uneven_huge_pages(self) -> bool:
        return self._old is not None and any(
            names.is_huge_pages(name) and not resources.is_divisible(name, parse(text))
            for _, container, _ in containers_by_field(self._old)
            for quantities in (container.resources.limits, container.resources.requests)
            for name, text in quantities.items()
        )

    @cached_property
    def bad_affinity_selectors(self) -> bool:
        return self._old is not None and affinity.has_bad_affinity(self._old)

    @cached_property
    def bad_node_affinity_values(self) -> bool:
        return self._old is not None and affinity.has_bad_node_affinity(self._old)

    @cached_property
    def bad_spread_selectors(self) -> bool:
        return self._old is not None and affinity.has_bad_spread(self._old)

    @cached_property
    def bad_match_label_keys(self) -> bool:
        return self._old is not None and affinity.has_bad_match_label_keys(self._old)

    @cached_property
    def far_token_paths(self) -> bool:
        tokens = (
            source.serviceAccountToken
            for volume in (self._old.volumes if self._old is not None else ())
            if volume.projected is not None
            for source in volume.projected.sources or ()
        )
        return any(
            token is not None and any(validation.validate_local_non_reserved_path(token.path, "")) for token in tokens
        )

    @cached_property
    def host_sysctls(self) -> bool:
        return self._old is not None and security.has_host_sysctl(self._old)

    @cached_property
    def empty_image_references(self) -> bool:
        return self._old is not None and any(
            volume.image is not None and not volume.image.reference for volume in self._old.volumes
        )

    @cached_property
    def unescalated_admins(self) -> bool:
        """Whether a container has CAP_SYS_ADMIN without the privilege to escalate."""
        return self._old is not None and any(
            container.securityContext is not None
            and not container.securityContext.allowPrivilegeEscalation
            and security.adds_sys_admin(container.securityContext)
            for _, container, _ in containers_by_field(self._old)
        )

    @cached_property
    def restarted_init_containers(self) -> bool:
        """Whether an init container that is no sidecar has the resize policy RestartContainer."""
        return self._old is not None and any(
            container.restartPolicy != "Always" and policy.restartPolicy == "RestartContainer"
            for container in self._old.initContainers
            for policy in container.resizePolicy
        )

    @cached_property
    def user_namespace_devices(self) -> bool:
        if self._old is None or self._old.hostUsers is not False:
            return False
        return any(container.volumeDevices for _, container, _ in containers_by_field(self._old))


NEW_POD = PodValidationOptions(is_pod=True)
NEW_TEMPLATE = PodValidationOptions()
