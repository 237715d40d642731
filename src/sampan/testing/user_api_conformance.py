"""The conformance suite of `sampan.machinery.client.user_api.UserApi`: what every implementation must do.

A test module subclasses `UserApiConformance` and overrides `apis`, which yields the API of a user who may do everything
and that of a user who may do nothing, on an empty cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from sampan.machinery import errors
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import UserApi

_MAPS = "/api/v1/namespaces/default/configmaps"
_JSON = {"Accept": "application/json", "Content-Type": "application/json"}
_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


class UserApiConformance:
    def apis(self) -> AbstractAsyncContextManager[tuple[UserApi, UserApi]]:
        raise NotImplementedError

    async def test_send_returns_the_body_of_a_success(self) -> None:
        async with self.apis() as (admin, _):
            response = await admin.send(Request(method="GET", path="/version", headers=_JSON))
            assert response.status == 200
            assert msgspec.json.decode(response.body())["major"] == "1"

    async def test_send_raises_the_status_of_an_error(self) -> None:
        async with self.apis() as (admin, nobody):
            with pytest.raises(errors.NotFound) as caught:
                await admin.send(Request(method="GET", path=f"{_MAPS}/{uuid4()}", headers=_JSON))
            assert caught.value.status["details"]["kind"] == "configmaps"
            with pytest.raises(errors.Forbidden):
                await nobody.send(Request(method="GET", path="/api/v1/secrets", headers=_JSON))

    async def test_send_passes_query_and_body(self) -> None:
        async with self.apis() as (admin, _):
            name = f"sent-{uuid4()}"
            body = msgspec.json.encode({"metadata": {"name": name}})
            create = Request(method="POST", path=_MAPS, query=[("dryRun", "All")], headers=_JSON, body=body)
            assert (await admin.send(create)).status == 201
            with pytest.raises(errors.NotFound):
                await admin.send(Request(method="GET", path=f"{_MAPS}/{name}", headers=_JSON))

    async def test_send_negotiates_tables(self) -> None:
        async with self.apis() as (admin, _):
            response = await admin.send(Request(method="GET", path="/api/v1/namespaces", headers=_TABLE))
            assert msgspec.json.decode(response.body())["kind"] == "Table"

    async def test_watch_yields_events_as_lines(self) -> None:
        async with self.apis() as (admin, _):
            name = f"watched-{uuid4()}"
            query = [("watch", "true"), ("fieldSelector", f"metadata.name={name}"), ("timeoutSeconds", "60")]
            async with admin.watch(Request(method="GET", path=_MAPS, query=query, headers=_JSON)) as events:
                body = msgspec.json.encode({"metadata": {"name": name}})
                await admin.send(Request(method="POST", path=_MAPS, headers=_JSON, body=body))
                await admin.send(Request(method="DELETE", path=f"{_MAPS}/{name}", headers=_JSON))
                types: list[Any] = []
                async for lines in events:
                    types += [msgspec.json.decode(line)["type"] for line in lines]
                    if len(types) >= 2:
                        break
            assert types == ["ADDED", "DELETED"]

    async def test_watch_ends_after_its_timeout(self) -> None:
        async with self.apis() as (admin, _):
            query = [("watch", "true"), ("timeoutSeconds", "1"), ("fieldSelector", "metadata.name=none")]
            async with admin.watch(Request(method="GET", path=_MAPS, query=query, headers=_JSON)) as events:
                assert await _collect_lines(events) == []

    async def test_watch_raises_like_send(self) -> None:
        async with self.apis() as (_, nobody):
            request = Request(method="GET", path="/api/v1/secrets", query=[("watch", "true")], headers=_JSON)
            with pytest.raises(errors.Forbidden):
                async with nobody.watch(request):
                    pass

    async def test_watch_from_a_version_that_never_existed_fails(self) -> None:
        async with self.apis() as (admin, _):
            query = [("watch", "true"), ("resourceVersion", "x")]
            with pytest.raises(errors.ApiError):
                async with admin.watch(Request(method="GET", path=_MAPS, query=query, headers=_JSON)) as events:
                    await _collect_lines(events)


async def _collect_lines(events: AsyncIterator[Any]) -> list[bytes]:
    return [line async for lines in events for line in lines]
