"""The scale subresource of custom resources."""

from __future__ import annotations

from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.unstructured import Unstructured
from sampan.apiserver.customresources.objects.strategy import ScalePaths
from sampan.apiserver.registry.scale import ScaleSubresource, make_scale
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.machinery import errors

_UNSET = -(2**31)
"""Stands for the replicas of an object that does not set them."""


class CustomScaled(ScaleSubresource):
    """The scale subresource; the requested replicas are validated with the object."""

    def __init__(self, *, strategy: Strategy, paths: ScalePaths) -> None:
        super().__init__(strategy=strategy, selector=lambda obj: paths.selector(obj.content))
        self._paths = paths

    def scale_of(self, obj: Unstructured) -> Scale:
        scale = self.scale_before(obj)
        if scale.spec.replicas == _UNSET:
            raise errors.internal_error(f'the spec replicas field "{self._paths.spec_path}" does not exist')
        return scale

    def scale_before(self, obj: Unstructured) -> Scale:
        replicas, content = self._paths.replicas(obj.content), obj.content
        current_replicas = self._paths.current_replicas(content) or 0
        return make_scale(
            obj, _UNSET if replicas is None else replicas, current_replicas, self._paths.selector(content)
        )

    def set_replicas(self, obj: Unstructured, replicas: int) -> None:
        self._paths.set_replicas(obj.content, replicas)

    def set_version(self, obj: Unstructured, resource_version: str) -> None:
        """Set the resource version, if the scale has one; custom resources cannot be updated without."""
        obj.metadata.resourceVersion = resource_version or obj.metadata.resourceVersion

    def check(self, ctx: Context, scale: Scale, old: Scale, name: str) -> None:
        if scale.spec.replicas == _UNSET:
            raise errors.bad_request(f'the spec replicas field "{self._paths.spec_path}" cannot be empty')
