"""garbage-collector-controller, which deletes or orphans the dependents of deleted owners.

The counterpart is `pkg/controller/garbagecollector`. `ownership` holds the few fields that are read of every object,
`graph` the owner references (in memory, and only of objects that have owners or dependents or are waiting), `verdicts`
the decision about an object (pure), `kinds` the served resources, `following` the watches that feed the graph,
`objects` the API calls, `absent` the cache of absent owners, and `collector` the controller.
"""

from sampan.controllers.garbage.collector import GarbageCollector, make

__all__ = ["GarbageCollector", "make"]
