"""The hollow runtime: pods that only look as if they ran. What they do is told by annotations or a stage file
(`behaviour`, `stages`); a container's state is computed from that and the time (`container`), so that an idle pod costs
a few hundred bytes and no task."""

from sampan.runtimes.hollow.addresses import AddressRange
from sampan.runtimes.hollow.behaviour import PREFIX, Behaviour
from sampan.runtimes.hollow.runtime import HollowRuntime, World
from sampan.runtimes.hollow.stages import NO_STAGES, StageError, Stages, read_stages

__all__ = [
    "NO_STAGES",
    "PREFIX",
    "AddressRange",
    "Behaviour",
    "HollowRuntime",
    "StageError",
    "Stages",
    "World",
    "read_stages",
]
