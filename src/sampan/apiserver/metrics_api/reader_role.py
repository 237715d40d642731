"""The cluster role that grants the metrics API to the view, edit and admin roles, as in metrics-server's manifests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.call import Call, Query
from sampan.apiserver.metrics_api.forms import GROUP
from sampan.apiserver.negotiation import JSON
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

log = logging.getLogger(__name__)

NAME = "system:aggregated-metrics-reader"
_PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_ROLE: Final[dict[str, Any]] = {
    "metadata": {
        "name": NAME,
        "labels": {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")},
    },
    "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
}


async def ensure_reader_role(pipeline: Pipeline) -> None:
    """Create the role; an existing one is left alone."""
    headers = {"Content-Type": JSON, "User-Agent": "sampan-apiserver"}
    body = msgspec.json.encode(_ROLE)
    call = Call(method="POST", path=_PATH, query=Query(""), headers=headers, body=body, user=SYSTEM)
    try:
        await pipeline.serve_as(call)
    except errors.AlreadyExists:
        return
    except errors.ApiError as error:
        log.warning("cannot write the role %s of the metrics API: %s", NAME, error)
