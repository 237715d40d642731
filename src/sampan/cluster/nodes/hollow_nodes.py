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
from sampan.cluster.errors import ClusterError
from sampan.cluster.nodes.node_summary import not_ready_text, ready_timeout_s
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.fleet import COMPONENT, Fleet
from sampan.machinery.client import Client
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.control_loop.supervision import Supervision
from sampan.runtimes.hollow import NO_STAGES, read_stages

log = logging.getLogger(__name__)

FLEET = UserInfo(FLEET_USER, groups=(AUTHENTICATED,))
_PROGRESS_S = 10.0
"""The interval at which a start that takes long is logged."""


def node_user(name: str) -> UserInfo:
    return UserInfo(f"system:node:{name}", groups=("system:nodes", AUTHENTICATED))


def make_fleet(
    config: NodesConfig,
    *,
    transport: LoopbackTransport,
    clock: Clock,
    activity: Activity,
    supervision: Supervision | None = None,
) -> Fleet:
    requests = ClientRequestMetrics()  # one for all nodes, which may be thousands

    def client_of(user: UserInfo) -> Client:
        return Client(transport=transport.as_user(user), clock=clock, component=COMPONENT, metrics=requests)

    return Fleet(
        client=client_of(FLEET),
        client_for=lambda name: client_of(node_user(name)),
        clock=clock,
        activity=activity,
        config=KubeletConfig(has_events=config.has_events, feature_gates=config.feature_gates),
        stages=read_stages(config.stages) if config.stages is not None else NO_STAGES,
        names=[f"node-{number}" for number in range(config.hollow_count)],
        real_nodes={f"node-{number}" for number in range(config.real_count)},
        supervision=supervision,
    )


async def wait_for_nodes(fleet: Fleet) -> None:
    """Wait until all nodes are Ready: those of the configuration, and those that the store has from an earlier run.
    Raise ClusterError, which names the others, after the time limit."""
    names, loop = await fleet.initial_names(), asyncio.get_running_loop()
    timeout_s = ready_timeout_s(len(names))
    deadline = loop.time() + timeout_s
    while True:
        try:
            async with asyncio.timeout(min(_PROGRESS_S, deadline - loop.time())):
                return await fleet.wait_until_running(names)
        except TimeoutError:
            missing = fleet.list_missing(names)
        if missing and loop.time() >= deadline:
            raise ClusterError(not_ready_text(missing, timeout_s))
        log.warning("%d of %d nodes are ready so far", len(names) - len(missing), len(names))
