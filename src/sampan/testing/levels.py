"""Levels of a test cluster: how much of a cluster runs, from the API alone to real containers."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.cluster.cluster_config import APISERVER, COMPONENTS
from sampan.runtimes.names import AUTO, HOLLOW

API, CONTROLLERS, NODES, CONTAINERS = "api", "controllers", "nodes", "containers"
DEFAULT_LEVEL = CONTROLLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The values of arguments of `Cluster` that are not set."""

    components: tuple[str, ...] = COMPONENTS
    nodes: int = 0
    runtime: str = HOLLOW


LEVELS = {
    API: Level(components=(APISERVER,)),
    CONTROLLERS: Level(),
    NODES: Level(nodes=1),
    CONTAINERS: Level(nodes=1, runtime=AUTO),
}
"""The levels by name: only the API server; with controllers and scheduler; with a hollow node, on which pods run
without containers; with a node of the container runtime of this machine."""


def level_named(name: object) -> Level:
    level = LEVELS.get(name) if isinstance(name, str) else None
    if level is None:
        raise ValueError(f"level: there is no {name!r}; supported: {', '.join(LEVELS)}")
    return level
