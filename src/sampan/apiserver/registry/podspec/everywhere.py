"""All containers of a pod, of whatever kind, and where each stands."""

from collections.abc import Iterator

from sampan.api.types.core_v1 import Container, EphemeralContainer, PodSpec

AnyContainer = Container | EphemeralContainer


def containers_of(spec: PodSpec) -> Iterator[tuple[str, AnyContainer, int]]:
    """List, container and place in the list; init containers first."""
    for index, container in enumerate(spec.initContainers):
        yield "initContainers", container, index
    for index, container in enumerate(spec.containers or ()):
        yield "containers", container, index
    for index, ephemeral in enumerate(spec.ephemeralContainers):
        yield "ephemeralContainers", ephemeral, index
