"""The hollow runtime, which simulates pods without running anything, like kubemark's hollow nodes and KWOK.

Annotations or a stage file define how pods behave (`behavior`). The state of a container is computed from its
behavior and the current time (`container`), so that an idle pod costs a few hundred bytes and no task.
"""

from sampan.runtimes.hollow.behavior import (
    NO_STAGES,
    PREFIX,
    ContainerBehavior,
    HollowStages,
    StageError,
    read_stages,
)
from sampan.runtimes.hollow.runtime import AddressRange, HollowRuntime, HollowWorld

__all__ = [
    "NO_STAGES",
    "PREFIX",
    "AddressRange",
    "ContainerBehavior",
    "HollowRuntime",
    "HollowStages",
    "HollowWorld",
    "StageError",
    "read_stages",
]
