"""The resource under test, and a client for it without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.response.responses import (
    ApiResponse,
    ListResponse,
    ObjectResponse,
    RawResponse,
    ValueResponse,
    translate_storage_error,
)
from sampan.machinery import errors

Value = dict[str, Any]
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_ADMIN = UserInfo("admin", "", (MASTERS, AUTHENTICATED))


@dataclass(frozen=True, kw_only=True)
class RegistrySubject:
    """The resource under test, as the checks see it. The resource is namespaced, and has no objects at the start."""

    open: Callable[[], AbstractAsyncContextManager[Pipeline]]
    path: str
    """The path of a collection, such as /api/v1/namespaces/default/configmaps."""
    content: Callable[[int], Value]
    """Returns the fields of an object that hold a number. Different numbers give different fields."""
    number: Callable[[Value], int]
    """Returns the number that an object holds, the inverse of `content`."""
    needs_version: bool = False
    """Whether an update must specify a resource version."""
    counts_generation: bool = False
    repeats_errors: bool = False
    """Whether errors in the metadata of an update are repeated, as those of custom resources are."""
    """Whether every change of the content increments the generation."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Other required fields of an object, which are the same in all objects."""

    @property
    def namespace(self) -> str:
        return self.path.split("/")[-2]

    def build_object(self, name: str, number: int = 0, **metadata: Any) -> Value:
        return {"metadata": {"name": name, **metadata}, **merge_values(dict(self.fixed), self.content(number))}


def merge_values(base: Value, over: Value) -> Value:
    """Return two nested dicts merged. Values of the second dict win."""
    out = dict(base)
    for key, value in over.items():
        below = out.get(key)
        out[key] = merge_values(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return out


@dataclass(frozen=True)
class Reply:
    code: int
    value: Value
    warnings: list[str]

    @property
    def version(self) -> str:
        return str(self.value["metadata"]["resourceVersion"])

    @property
    def message(self) -> str:
        return str(self.value.get("message", ""))


class Api:
    """Calls the server without HTTP. Every result is a Reply, including errors."""

    def __init__(self, pipeline: Pipeline, subject: RegistrySubject) -> None:
        self.pipeline, self.subject = pipeline, subject

    async def create(self, value: Value, query: str = "") -> Reply:
        return await self.send("POST", "", query, value)

    async def get(self, name: str) -> Reply:
        return await self.send("GET", name)

    async def list(self, query: str = "") -> Reply:
        return await self.send("GET", "", query)

    async def put(self, name: str, value: Value, query: str = "") -> Reply:
        return await self.send("PUT", name, query, value)

    async def merge(self, name: str, value: Value, query: str = "") -> Reply:
        return await self.send("PATCH", name, query, value, MERGE_PATCH)

    async def operate(self, name: str, *operations: Value, query: str = "") -> Reply:
        return await self.send("PATCH", name, query, list(operations), JSON_PATCH)

    async def delete(self, name: str, options: Value | None = None, query: str = "") -> Reply:
        return await self.send("DELETE", name, query, options)

    async def send(self, method: str, name: str, query: str = "", value: Any = None, media: str = JSON) -> Reply:
        body = value if isinstance(value, bytes) else b"" if value is None else msgspec.json.encode(value)
        path = f"{self.subject.path}/{name}" if name else self.subject.path
        headers = {"Content-Type": media} if body else {}
        call = Call(method=method, path=path, query=Query(query), headers=headers, body=body, user=_ADMIN)
        try:
            code, raw = _encode_response(await self.pipeline.serve_as(call))
        except errors.ApiError as error:
            code, raw = error.code, msgspec.json.encode(error.status)
        except Exception as failure:
            api_error = translate_storage_error(failure, call)
            if api_error is None:
                raise
            code, raw = api_error.code, msgspec.json.encode(api_error.status)
        return Reply(code, msgspec.json.decode(raw), list(call.warnings))

    async def create_object(self, name: str, number: int = 0, **metadata: Any) -> Value:
        """Create an object and return it."""
        reply = await self.create(self.subject.build_object(name, number, **metadata))
        assert reply.code == 201, reply.value
        return reply.value


def _encode_response(response: ApiResponse) -> tuple[int, bytes]:
    if isinstance(response, ObjectResponse):
        return response.code, response.raw
    if isinstance(response, ListResponse):
        return 200, response.result.join_chunks()
    if isinstance(response, ValueResponse):
        return response.code, msgspec.json.encode(response.value)
    if isinstance(response, RawResponse):
        return response.code, msgspec.json.encode({"message": response.body.decode()})
    raise AssertionError("unexpected watch response")


Check = Callable[[Api], Coroutine[None, None, None]]


def run(check: Check, subject: RegistrySubject, *, timeout_s: float = 60.0) -> None:
    """Run one check on a new event loop."""

    async def open_and_check() -> None:
        async with subject.open() as pipeline:
            await check(Api(pipeline, subject))

    asyncio.run(asyncio.wait_for(open_and_check(), timeout_s))
