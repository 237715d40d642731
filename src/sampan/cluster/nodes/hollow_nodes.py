"""The hollow nodes of a cluster in one process: their identities, and how they are started.

One user watches all pods and nodes and creates events; a cluster role of the same name grants it nothing else. Each
node writes as system:node:NAME, so that the Node authorizer and NodeRestriction apply to it.
"""

from __future__ import annotations

import asyncio
import logging

from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.cluster.component_roles import FLEET_USER
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.fleet import COMPONENT, Fleet
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.runtimes.hollow import NO_STAGES, read_stages

log = logging.getLogger(__name__)

FLEET = UserInfo(FLEET_USER, groups=(AUTHENTICATED,))
_MAX_AWAITED_NODES = 100
"""Up to this number of nodes the start of the cluster waits until they are running; more nodes start in the
background."""
_START_TIMEOUT_S = 30


def node_user(name: str) -> UserInfo:
    return UserInfo(f"system:node:{name}", groups=("system:nodes", AUTHENTICATED))


def fleet_of(config: NodesConfig, *, transport: LoopbackTransport, clock: Clock, activity: Activity) -> Fleet:
    def client_of(user: UserInfo) -> Client:
        return Client(transport=transport.as_user(user), clock=clock, component=COMPONENT)

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
    """Wait until the nodes are running, unless there are too many."""
    if not 0 < config.hollow_count <= _MAX_AWAITED_NODES:
        return
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await fleet.wait_until_running(fleet.names)
    except TimeoutError:
        log.warning("only %d of %d nodes are running so far", len(fleet), config.hollow_count)
