"""Lists and watches of secrets that were recorded on a real server, replayed against a cacher."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import yaml

from sampan.api.selectors import fields, labels
from sampan.host.clock import RealClock
from sampan.storage.backend import Backend
from sampan.storage.cacher import (
    CachedResource,
    CacheError,
    Cacher,
    InvalidContinue,
    InvalidVersion,
    ListQuery,
    ListWatchOptions,
    ObjectSelection,
    TooLargeVersion,
    VersionExpired,
    WatchQuery,
    apply_defaults,
    validate_options,
)
from sampan.storage.memory import MemoryBackend
from tests.storage.cacher.cacher_store import VirtualTimeLoop, running_cacher

SECRETS = CachedResource(prefix="/registry/secrets/", kind="Secret", api_version="v1", plural="secrets")
SCENARIOS = ["lists-paging", "lists-versions", "watch-history", "watch-labels", "watch-stream-list"]
OTHER_FORMS = {"metadata only, in the mark as well", "tables and the end mark as a table"}
OTHER_KINDS = {"the mark carries the empty parts of its kind"}


class ErrorResponse(Exception):
    """An error response with a status code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MiniServer:
    """A minimal API server: secrets without validation."""

    def __init__(self, backend: Backend, cacher: Cacher) -> None:
        self._backend, self._cacher = backend, cacher

    async def call(self, request: str, body: Any) -> Any:
        method, target = request.split(" ", 1)
        url = urlsplit(target)
        path = url.path.removeprefix("/api/v1/").split("/")
        namespace, *name = [path[1], *path[3:]] if path[0] == "namespaces" else ["", *path[1:]]
        query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        handlers: dict[str, Callable[..., Awaitable[Any]]] = {
            "GET": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        return await handlers[method](namespace, name[0] if name else "", query, body)

    async def _get(self, namespace: str, name: str, query: dict[str, str], _: Any) -> Any:
        version = query.get("resourceVersion", "")
        if name:
            item = await self._cacher.get(namespace, name, version)
            assert item is not None
            return json.loads(item.raw)
        initial = query.get("sendInitialEvents")
        options = apply_defaults(
            ListWatchOptions(
                is_watch="watch" in query,
                resource_version=version,
                match=query.get("resourceVersionMatch", ""),
                continue_token=query.get("continue", ""),
                send_initial_events=None if initial is None else initial != "false",
            )
        )
        if errors := validate_options(options):
            raise ErrorResponse(422, "; ".join(fault.body for fault in errors))
        selection = _selection(namespace, query)
        if options.is_watch:
            return await self._watch(selection, options, query)
        limit, token = int(query.get("limit", "0")), options.continue_token
        return json.loads(
            (await self._cacher.list(ListQuery(selection, version, options.match, limit, token))).join_chunks()
        )

    async def _watch(self, selection: ObjectSelection, options: ListWatchOptions, query: dict[str, str]) -> list[Any]:
        watch_query = WatchQuery(
            selection,
            options.resource_version,
            options.send_initial_events,
            query.get("allowWatchBookmarks") == "true",
            float(query["timeoutSeconds"]),
        )
        try:
            async with self._cacher.watch(watch_query) as watcher:
                return [json.loads(event.frame()) async for events in watcher for event in events]
        except (VersionExpired, TooLargeVersion) as fault:
            return [{"type": "ERROR", "object": {"code": _code(fault)}}]

    async def _post(self, namespace: str, _: str, __: Any, body: Any) -> Any:
        value = {"kind": "Secret", "apiVersion": "v1", **copy.deepcopy(body), "type": "Opaque"}
        value["metadata"]["namespace"] = namespace
        return await self._store(namespace, value)

    async def _put(self, namespace: str, _: str, query: Any, body: Any) -> Any:
        return await self._post(namespace, "", query, body)

    async def _patch(self, namespace: str, name: str, _: Any, body: Any) -> Any:
        old = await self._get(namespace, name, {}, None)
        value = copy.deepcopy(old)
        for key, change in body["metadata"].items():
            merged = {**value["metadata"].get(key, {}), **change} if isinstance(change, dict) else change
            value["metadata"][key] = merged
            if not merged:
                del value["metadata"][key]
        if value == old:
            return old
        if "deletionTimestamp" in value["metadata"] and "finalizers" not in value["metadata"]:
            await self._backend.delete(SECRETS.key(namespace, name))
            return old
        return await self._store(namespace, value)

    async def _delete(self, namespace: str, name: str, _: Any, __: Any) -> Any:
        if not name:
            result = await self._cacher.list(ListQuery(ObjectSelection(namespace)))
            for item in result.items:
                await self._delete(namespace, item.name, {}, None)
            return json.loads(result.join_chunks())
        value = await self._get(namespace, name, {}, None)
        if "finalizers" in value["metadata"]:
            value["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
            return await self._store(namespace, value)
        await self._backend.delete(SECRETS.key(namespace, name))
        return {}

    async def _store(self, namespace: str, value: Any) -> Any:
        value["metadata"].pop("resourceVersion", None)
        key = SECRETS.key(namespace, value["metadata"]["name"])
        revision = await self._backend.put(key, msgspec.json.encode(value))
        return {**value, "metadata": {**value["metadata"], "resourceVersion": str(revision)}}


def _selection(namespace: str, query: dict[str, str]) -> ObjectSelection:
    by_label = labels.parse(query["labelSelector"]) if "labelSelector" in query else None
    terms = fields.parse(query["fieldSelector"]).terms if "fieldSelector" in query else ()
    return ObjectSelection(namespace, "", by_label, tuple(fields.FieldTerm(*term) for term in terms))


def _code(fault: CacheError) -> int:
    codes = {VersionExpired: 410, TooLargeVersion: 504, InvalidContinue: 400}
    if isinstance(fault, InvalidVersion):
        return 400 if str(fault).startswith("invalid resource version") else 500
    return codes[type(fault)]


def _comparable(value: Any) -> Any:
    """Return the comparable parts of a response: names, labels, types, counts, and whether there is a token."""
    if isinstance(value, list):
        return [(event["type"], _comparable(event["object"])) for event in value]
    if "items" in value:
        metadata = value["metadata"]
        rest = (bool(metadata.get("continue")), metadata.get("remainingItemCount"))
        return (value["kind"], [_comparable(item) for item in value["items"]], rest)
    if "code" in value:
        return value["code"]
    metadata = value["metadata"]
    kept = ("name", "labels", "annotations", "finalizers", "deletionGracePeriodSeconds")
    return (value.get("kind"), value.get("apiVersion"), {key: metadata[key] for key in kept if key in metadata})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_requests_get_the_recorded_responses(reference_dir: Path, scenario: str) -> None:
    steps = yaml.safe_load((reference_dir / "recordings" / f"{scenario}.yaml").read_text())["steps"]
    recorded = {
        step["step"]: step for step in json.loads((reference_dir / "recordings" / f"{scenario}.json").read_text())
    }
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_replay(steps, recorded))


async def _replay(steps: list[dict[str, Any]], recorded: dict[int, dict[str, Any]]) -> None:
    saved: dict[str, str] = {"ns": "golden"}
    compared = 0
    async with MemoryBackend(clock=RealClock()) as backend, running_cacher(backend, SECRETS) as cacher:
        for number in range(10):  # the recorded server had earlier revisions
            await backend.put(f"/registry/others/{number}", b"{}")
        server = MiniServer(backend, cacher)
        for number, step in enumerate(steps):
            if step["name"] in OTHER_FORMS | OTHER_KINDS:
                continue
            request = step["request"]
            for name, value in saved.items():
                request = request.replace("{" + name + "}", value)
            try:
                result, code, message = await server.call(request, step.get("body")), 200, ""
            except (ErrorResponse, CacheError) as fault:
                code = fault.code if isinstance(fault, ErrorResponse) else _code(fault)
                result, message = {"code": code}, str(fault)
            for name, path in step.get("save", {}).items():
                saved[name] = result["metadata"].get(path.removeprefix("metadata."), "")
            if number in recorded:
                _compare(recorded[number], code, message, result)
                compared += 1
    assert compared > 10


def _compare(expected: dict[str, Any], code: int, message: str, result: Any) -> None:
    name, body = expected["name"], expected["body"]
    assert code == expected["status"], name
    if code == 422:
        assert message == "; ".join(cause["message"] for cause in body["details"]["causes"]), name
    elif code != 200:
        assert message == body.get("message", message), name
    assert _comparable(result) == _comparable(body), name
