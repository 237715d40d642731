"""The hollow runtime, which simulates pods without running anything, like kubemark's hollow nodes and KWOK.

Annotations or a stage file define how pods behave (`behaviour`). The state of a container is computed from its
behaviour and the current time (`container`), so that an idle pod costs a few hundred bytes and no task.
"""

from sampan.runtimes.hollow.behaviour import (
    NO_STAGES,
    PREFIX,
    ContainerBehaviour,
    HollowStages,
    StageError,
    read_stages,
)
from sampan.runtimes.hollow.runtime import AddressRange, HollowRuntime, HollowWorld

__all__ = [
    "NO_STAGES",
    "PREFIX",
    "AddressRange",
    "ContainerBehaviour",
    "HollowRuntime",
    "HollowStages",
    "HollowWorld",
    "StageError",
    "read_stages",
]
