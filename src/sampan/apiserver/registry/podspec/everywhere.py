"""Iteration over all containers of a pod."""

from collections.abc import Iterator

from sampan.api.types.core_v1 import Container, EphemeralContainer, PodSpec

AnyContainer = Container | EphemeralContainer


def containers_of(spec: PodSpec) -> Iterator[tuple[str, AnyContainer, int]]:
    """Yield the field, the container and its index: init containers, then containers, then ephemeral containers."""
    for index, container in enumerate(spec.initContainers):
        yield "initContainers", container, index
    for index, container in enumerate(spec.containers or ()):
        yield "containers", container, index
    for index, ephemeral in enumerate(spec.ephemeralContainers):
        yield "ephemeralContainers", ephemeral, index
