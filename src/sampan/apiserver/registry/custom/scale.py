"""The scale subresource of a custom resource, whose fields are at paths that its definition declares
(`k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.types.apiextensions_v1 import CustomResourceSubresourceScale
from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.unstructured import Unstructured
from sampan.apiserver.registry.scale import Scaled, make_scale
from sampan.apiserver.registry.strategy import Strategy
from sampan.machinery import errors

_UNSET = -(2**31)
"""Stands for the replicas of an object that does not set them."""
_MOST = 2**31 - 1


class ScalePaths:
    """The fields of the scale in a custom object."""

    def __init__(self, scale: CustomResourceSubresourceScale) -> None:
        self.spec_path, self.status_path = scale.specReplicasPath, scale.statusReplicasPath
        self._spec, self._status = _parts(scale.specReplicasPath), _parts(scale.statusReplicasPath)
        self._selector = _parts(scale.labelSelectorPath) if scale.labelSelectorPath else []

    @property
    def managed_path(self) -> tuple[str, ...]:
        """The path of the replicas in managed fields."""
        return tuple(f"f:{part}" for part in self._spec)

    def replicas(self, content: dict[str, Any]) -> int | None:
        return _integer(_dig(content, self._spec))

    def current_replicas(self, content: dict[str, Any]) -> int | None:
        return _integer(_dig(content, self._status))

    def selector(self, content: dict[str, Any]) -> str:
        value = _dig(content, self._selector) if self._selector else None
        return value if isinstance(value, str) else ""

    def set_replicas(self, content: dict[str, Any], replicas: int) -> None:
        """Set the replicas in a private copy of the content; the objects on the path are created."""
        *way, last = self._spec
        for part in way:
            below = content.get(part)
            content[part] = below = dict(below) if isinstance(below, dict) else {}
            content = below
        content[last] = replicas

    def validate(self, content: dict[str, Any]) -> Iterator[FieldError]:
        """Yield errors for replicas that no Scale can show."""
        for path, replicas in (
            (self.spec_path, self.replicas(content)),
            (self.status_path, self.current_replicas(content)),
        ):
            if replicas is not None and replicas < 0:
                yield FieldError.invalid(path, replicas, "should be a non-negative integer")
            elif replicas is not None and replicas > _MOST:
                text = f"should be less than or equal to {_MOST}"
                yield FieldError.invalid(path, replicas, text)


class CustomScaled(Scaled):
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

    def check(self, scale: Scale, name: str) -> None:
        if scale.spec.replicas == _UNSET:
            raise errors.bad_request(f'the spec replicas field "{self._paths.spec_path}" cannot be empty')


def _parts(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _dig(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
