"""The arguments of `Cluster(…)`: their validation, with a TypeError or ValueError that names the wrong argument, and
the levels, which say how much of a cluster runs, from the API alone to real containers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.api.feature_gates import LEVELS as LEVELS_OF_KUBERNETES
from sampan.api.feature_gates import FeatureGateError, FeatureGates
from sampan.api.kubernetes_version import MAJOR, MINOR_VERSION
from sampan.api.resources import runtime_config as versions
from sampan.cluster.cluster_config import APISERVER, COMPONENTS, KUBELET, StoreConfig
from sampan.cluster.leadership import LeadershipConfig
from sampan.host.clock import Clock, RealClock, VirtualClock
from sampan.runtimes.names import AUTO, HOLLOW, RUNTIMES

API, CONTROLLERS, NODES, CONTAINERS = "api", "controllers", "nodes", "containers"
DEFAULT_LEVEL = CONTROLLERS

_STORES = ("memory", "sqlite")
_FILES = (".db", ".sqlite", ".sqlite3")
_SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDefaults:
    """The values that a level gives to arguments of `Cluster` that the caller does not set."""

    components: tuple[str, ...] = COMPONENTS
    nodes: int = 0
    runtime: str = HOLLOW


LEVELS = {
    API: LevelDefaults(components=(APISERVER,)),
    CONTROLLERS: LevelDefaults(),
    NODES: LevelDefaults(nodes=1),
    CONTAINERS: LevelDefaults(nodes=1, runtime=AUTO),
}
"""The levels by name: the API server alone; with controllers and scheduler; also with a hollow node, on which pods run
without containers; or with a node that uses the container runtime of this machine."""


def level_named(name: object) -> LevelDefaults:
    level = LEVELS.get(name) if isinstance(name, str) else None
    if level is None:
        raise ValueError(f"level: there is no {name!r}; supported: {', '.join(LEVELS)}")
    return level


def check_components(components: Any) -> tuple[str, ...]:
    names = _words("components", components)
    for name in names:
        if name not in COMPONENTS:
            raise ValueError(f"components: there is no {name!r}; supported: {', '.join(COMPONENTS)}")
    if APISERVER not in names:
        raise ValueError(f"components: {APISERVER!r} cannot be left out")
    return names


def check_controllers(controllers: Any) -> tuple[str, ...]:
    """Validate the names of controllers; True stands for the default ones, False for none."""
    from sampan.controllers.manager import ALL, UnknownController, select_controllers

    if isinstance(controllers, bool):
        return (ALL,) if controllers else ()
    names = _words("controllers", controllers)
    try:
        select_controllers(names)
    except UnknownController as error:
        raise ValueError(f"controllers: {error}") from None
    return names


def check_store(store: Any) -> str | Path | StoreConfig:
    """Validate the storage argument. A word that is neither a type of store nor looks like a path is rejected, because
    it is more likely a mistake than a file name."""
    if isinstance(store, StoreConfig):
        return store
    if isinstance(store, str) and "://" in store:
        for url in store.split(","):
            if not url.strip().startswith(_SCHEMES):
                raise ValueError(f"store: {url.strip()!r} is not a URL of etcd, such as https://127.0.0.1:2379")
        return store
    if isinstance(store, str) and store not in _STORES and not (os.sep in store or store.endswith(_FILES)):
        raise ValueError(
            f'store: {store!r} is neither "memory" nor "sqlite", nor the URLs of etcd, nor a path with {os.sep!r} in it'
        )
    if not isinstance(store, (str, os.PathLike)):
        raise TypeError(f"store: must be a string, a path or a StoreConfig, not {_type(store)}")
    if store not in _STORES and not Path(store).absolute().parent.is_dir():
        raise ValueError(f"store: {os.fspath(store)!r}: there is no directory {Path(store).absolute().parent}")
    return store if isinstance(store, str) else Path(store)


def check_runtime_config(runtime_config: Any, gates: FeatureGates | None = None) -> Mapping[str, bool]:
    settings = _check_switches("runtime_config", "API versions", runtime_config)
    try:
        versions.select_versions(settings, gates)
    except versions.RuntimeConfigError as error:
        raise ValueError(f"runtime_config: {error}") from None
    return settings


def check_feature_gates(kubernetes_version: Any, feature_gates: Any) -> FeatureGates:
    """Return the gates of a version such as "1.36", which is the newest one if empty."""
    levels = {f"{MAJOR}.{level}": level for level in LEVELS_OF_KUBERNETES}
    version = kubernetes_version or MINOR_VERSION
    if version not in levels:
        raise ValueError(f"kubernetes_version: there is no {version!r}; supported: {', '.join(levels)}")
    try:
        return FeatureGates(_check_switches("feature_gates", "gates", feature_gates), level=levels[version])
    except FeatureGateError as error:
        raise ValueError(f"feature_gates: {error}") from None


def _check_switches(name: str, content: str, switches: Any) -> dict[str, bool]:
    if switches is None:
        return {}
    is_mapping = isinstance(switches, Mapping)
    if not is_mapping or not all(isinstance(key, str) and isinstance(switches[key], bool) for key in switches):
        raise TypeError(f"{name}: must be a mapping from {content} to booleans")
    return dict(switches)


def check_nodes(nodes: Any, components: Sequence[str]) -> int:
    if not isinstance(nodes, int) or isinstance(nodes, bool):
        raise TypeError(f"nodes: must be an integer, not {_type(nodes)}")
    if nodes < 0:
        raise ValueError(f"nodes: cannot be negative, and is {nodes}")
    if nodes and KUBELET not in components:
        raise ValueError(f"nodes: needs {KUBELET!r} among the components")
    return nodes


def check_runtime(runtime: Any) -> str:
    if runtime not in RUNTIMES:
        raise ValueError(f"runtime: there is no {runtime!r}; supported: {', '.join(RUNTIMES)}")
    return str(runtime)


def check_hollow_stages(path: Any) -> Path | None:
    """Validate a stage file by reading it. Raise StageError, which says what is wrong with the file."""
    if path is None:
        return None
    if not isinstance(path, Path):
        raise TypeError(f"hollow_stages: must be a pathlib.Path, not {_type(path)}")
    from sampan.runtimes.hollow.behavior import read_stages

    read_stages(path)
    return path.absolute()


def check_clock(clock: Any) -> Clock:
    """Return the clock; the strings "real" and "virtual" stand for new clocks."""
    if clock is None or clock == "real":
        return RealClock()
    if clock == "virtual":
        return VirtualClock()
    is_clock = not isinstance(clock, type) and all(callable(getattr(clock, name, None)) for name in ("now", "sleep"))
    if not is_clock:
        shown = repr(clock) if isinstance(clock, str) else _type(clock)
        raise TypeError(f'clock: must be "real", "virtual" or a clock such as VirtualClock(), not {shown}')
    result: Clock = clock
    return result


def check_scheduler(scheduler: Any) -> None:
    if scheduler is None:
        return
    from sampan.scheduler.config import SchedulerConfig

    if not isinstance(scheduler, SchedulerConfig):
        raise TypeError(f"scheduler: must be a SchedulerConfig, not {_type(scheduler)}")


def check_leader_election(config: Any) -> None:
    if config is not None and not isinstance(config, LeadershipConfig):
        raise TypeError(f"leader_election: must be a LeadershipConfig, not {_type(config)}")


def check_switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}: must be True or False, not {_type(value)}")
    return value


def _words(name: str, words: Any) -> tuple[str, ...]:
    if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name}: must be a sequence of strings, not {_type(words)}")
    return tuple(words)


def _type(value: object) -> str:
    return "a class" if isinstance(value, type) else type(value).__name__
