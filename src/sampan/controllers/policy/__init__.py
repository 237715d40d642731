"""disruption-controller: tells in the status of each disruption budget how many of its pods may be disrupted now.

`budgets` decides (pure), `scales` finds out how many pods there should be, `disruption` is the controller.
"""

from sampan.controllers.policy.disruption import DisruptionController, make

__all__ = ["DisruptionController", "make"]
