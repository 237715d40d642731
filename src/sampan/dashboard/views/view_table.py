"""The tables of all views and of the special subscriptions, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from multidict import CIMultiDict

from sampan.dashboard.overview.subscription import OverviewSubscription, check_namespace, overview
from sampan.dashboard.responses import prepare_passed_response
from sampan.dashboard.site import View
from sampan.dashboard.stream.connection import MakeSubscription, StreamConnection
from sampan.dashboard.stream.subscription import SubscribeMessage, Subscription
from sampan.dashboard.views.completion import YamlCompletion
from sampan.dashboard.views.manifest_views import diff, yaml_of_object
from sampan.dashboard.views.record_views import audit, queues, recorder, trace, why
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi

_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def cluster_views() -> Mapping[str, View]:
    return {
        "audit": audit,
        "complete": YamlCompletion().view,
        "diff": diff,
        "overview": overview,
        "queues": queues,
        "recorder": recorder,
        "stats": stats,
        "trace": trace,
        "why": why,
        "yaml": yaml_of_object,
    }


def special_subscriptions() -> dict[str, MakeSubscription]:
    return {"overview": _subscribe_to_overview}


def _subscribe_to_overview(message: SubscribeMessage, connection: StreamConnection) -> Subscription:
    namespace = check_namespace(message.namespace)
    return OverviewSubscription(identifier=message.id, api=connection.api, namespace=namespace, send=connection.send)


async def stats(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    """Forward the stats summary of a node's kubelet, which has the network and disk usage of its pods."""
    node = request.query.get("node", "")
    if request.method != "GET" or not _NODE_NAME.fullmatch(node):
        raise errors.bad_request("node: not the name of a node")
    headers = CIMultiDict({"Accept": "application/json", "Host": request.headers.get("Host", "")})
    return await api.forward(
        request, target=f"/api/v1/nodes/{node}/proxy/stats/summary", headers=headers, prepare=prepare_passed_response
    )
