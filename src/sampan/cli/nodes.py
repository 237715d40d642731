"""The hollow nodes of a cluster in one process: who they are to the API server, and how they are started.

One identity follows all pods and nodes and reports events; it has the rights of the cluster role of its name and no
others. What a node writes it writes as system:node:NAME, so that the Node authorizer and
NodeRestriction hold for it.
"""

from __future__ import annotations

import asyncio
import logging

from sampan.apiserver.call import AUTHENTICATED, User
from sampan.apiserver.loopback import LoopbackTransport
from sampan.cli.component_roles import FLEET_USER
from sampan.cli.nodes_config import NodesConfig
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.fleet import COMPONENT, Fleet
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.runtimes.hollow import NO_STAGES, read_stages

log = logging.getLogger(__name__)

FLEET = User(FLEET_USER, groups=(AUTHENTICATED,))
_WAITED_FOR = 100
"""A cluster of at most so many nodes is ready when they are; of more they come one after the other."""
_PATIENCE_S = 30


def node_user(name: str) -> User:
    return User(f"system:node:{name}", groups=("system:nodes", AUTHENTICATED))


def fleet_of(config: NodesConfig, *, transport: LoopbackTransport, clock: Clock, activity: Activity) -> Fleet:
    def client_of(user: User) -> Client:
        return Client(transport=transport.acting_as(user), clock=clock, component=COMPONENT)

    return Fleet(
        client=client_of(FLEET),
        client_for=lambda name: client_of(node_user(name)),
        clock=clock,
        activity=activity,
        config=KubeletConfig(has_events=config.has_events),
        stages=read_stages(config.stages) if config.stages is not None else NO_STAGES,
        names=[f"node-{number}" for number in range(config.hollow_count)],
        real_nodes={f"node-{number}" for number in range(config.real_count)},
    )


async def start_nodes(fleet: Fleet, config: NodesConfig) -> None:
    """Until the nodes run, if there are not too many to wait for."""
    if not 0 < config.hollow_count <= _WAITED_FOR:
        return
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await fleet.running(fleet.names)
    except TimeoutError:
        log.warning("only %d of %d nodes are running so far", len(fleet), config.hollow_count)


__all__ = ["FLEET", "fleet_of", "node_user", "start_nodes"]
