"""garbage-collector-controller: what is owned goes with its owners, or is let go, as the deletion of an owner says.

`ownership` is the little that is read of every object, `graph` who owns what (in memory, and only of objects that are
owned, own or wait), `verdicts` what becomes of an object (pure), `kinds` which resources there are, `following` their
way into the graph, `objects` the calls, `absent` what is known not to be, `collector` the controller.
"""

from sampan.controllers.garbage.collector import GarbageCollector, make

__all__ = ["GarbageCollector", "make"]
