"""Reconciles the default roles and bindings when the server starts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json
from sampan.apiserver.authz.rbac.defaults import plan
from sampan.apiserver.authz.rbac.index import GROUP, RbacIndex
from sampan.apiserver.call import AUTHENTICATED, MASTERS, Call, Query, User
from sampan.apiserver.negotiation import JSON
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

_SYSTEM = User("system:apiserver", groups=(MASTERS, AUTHENTICATED))


async def reconcile(pipeline: Pipeline, index: RbacIndex) -> None:
    """Write missing and outdated objects concurrently, so that the writes share a commit. `index` must be filled, and
    contains the new objects afterwards. Conflicts are ignored, because another server that shares the storage writes
    the same."""
    changes = plan(index, pipeline.endpoints.registry.scheme.resources)
    await asyncio.gather(
        *(_create(pipeline, obj) for obj in changes.create),
        *(_update(pipeline, obj) for obj in changes.update),
        *(_recreate(pipeline, obj) for obj in changes.recreate),
    )
    for obj in (*changes.create, *changes.update, *changes.recreate):
        index.put(obj)


async def _create(pipeline: Pipeline, obj: Any) -> None:
    with suppress(errors.AlreadyExists):
        await _send(pipeline, "POST", _collection(obj), json.encode(obj))


async def _update(pipeline: Pipeline, obj: Any) -> None:
    with suppress(errors.Conflict):
        await _send(pipeline, "PUT", f"{_collection(obj)}/{obj.metadata.name}", json.encode(obj))


async def _recreate(pipeline: Pipeline, obj: Any) -> None:
    with suppress(errors.NotFound):
        await _send(pipeline, "DELETE", f"{_collection(obj)}/{obj.metadata.name}")
    await _create(pipeline, obj)


def _collection(obj: Any) -> str:
    where = f"namespaces/{obj.metadata.namespace}/" if obj.metadata.namespace else ""
    return f"/apis/{GROUP}/v1/{where}{obj.kind.lower()}s"


async def _send(pipeline: Pipeline, method: str, path: str, body: bytes = b"") -> None:
    headers = {"Content-Type": JSON, "User-Agent": "kube-apiserver"}
    await pipeline.serve_as(Call(method=method, path=path, query=Query(""), headers=headers, body=body, user=_SYSTEM))
