"""garbage-collector-controller, which deletes or orphans the dependents of deleted owners.

The counterpart is `pkg/controller/garbagecollector`. `ownership` holds the few fields that are read of every object,
`graph` the owner references (in memory, and only of objects that have owners or dependents or are waiting), `decisions`
the decision about an object (pure), `monitors` the served resources and the watches that feed the graph, `objects` the
API calls and the cache of absent owners, and `collector` the controller.
"""
