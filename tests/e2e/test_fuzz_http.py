"""Thousands of requests, most of them invalid: every request that is HTTP gets a proper response, no response is an
internal error, no error is logged, and no connection, watch or task is left. The event loop is never blocked
(`conftest.py` fails a test whose watchdog fires), and a connection that stays open serves the next request."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections import Counter
from urllib.parse import urlsplit

import msgspec
import pytest

from sampan.api.scheme import builtin_scheme
from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire, WireResponse
from tests.e2e.fuzz_cases import Case, End, Fuzzer
from tests.e2e.fuzz_http_cases import HttpFuzzer
from tests.eventually import eventually

COUNT = int(os.environ.get("FUZZ_COUNT", "3000"))
SEED = int(os.environ.get("FUZZ_SEED", "36"))
WORKERS = 8
ANSWER_S = 60.0
CHECKED_EVERY = 20
"""After this number of responses a connection is checked with a request whose response is known."""


class Finding(AssertionError):
    """A case that the server did not handle properly."""


@pytest.mark.parametrize(
    ("fuzzer", "count"),
    [
        pytest.param(Fuzzer, COUNT, id="objects and damaged bytes"),
        pytest.param(HttpFuzzer, COUNT // 3, id="HTTP and options"),
    ],
)
def test_fuzzed_requests_get_proper_responses_and_leak_nothing(
    caplog: pytest.LogCaptureFixture, fuzzer: type[Fuzzer], count: int
) -> None:
    caplog.set_level(logging.WARNING)
    gc.collect()  # warnings about objects of earlier tests appear now, not during this test
    caplog.clear()
    codes = asyncio.run(_run(fuzzer, count))
    assert sum(codes.values()) > count * 0.7
    assert len(codes) >= 8, f"too few different status codes: {codes}"
    assert {record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR} == set()
    assert [record for record in caplog.records if record.exc_info] == []


async def _run(fuzzer: type[Fuzzer], count: int) -> Counter[int]:
    cases = fuzzer(builtin_scheme(), SEED).cases(count)
    async with Cluster(insecure=True, controllers=("serviceaccount-controller", "namespace-controller")) as cluster:
        port = urlsplit(cluster.insecure_url).port or 0
        tasks = len(asyncio.all_tasks())
        codes, findings, queue = Counter[int](), list[str](), list(reversed(cases))
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(_work(port, queue, codes, findings))
        assert not findings, "\n".join([f"{len(findings)} findings:", *findings[:10]])
        await _check_server_works(port)
        http = cluster.assembly.server.components.http
        await eventually(lambda: http.connections == 0)
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks + len(cluster.assembly.server.registry._stores) * 4)
        return codes


async def _work(port: int, queue: list[Case], codes: Counter[int], findings: list[str]) -> None:
    wire = None
    earlier: Case | None = None
    while queue:
        case = queue.pop()
        if case.end is not End.READS or wire is None:
            if wire is not None:
                await wire.__aexit__()
            wire, earlier = await Wire(port).__aenter__(), None
        try:
            is_open = await _send(wire, case, codes)
        except (Finding, OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as fault:
            findings.append(f"{type(fault).__name__} {fault} for {case} after {earlier}")
            is_open = False
        earlier = case
        if not is_open:
            await wire.__aexit__()
            wire = None
    if wire is not None:
        await wire.__aexit__()


async def _send(wire: Wire, case: Case, codes: Counter[int]) -> bool:
    """Send a case and check the response. Return whether the connection can be used again."""
    wire.send(case.data)
    if case.end is End.LEAVES:
        return False
    if case.end is End.HALF:
        wire.finish()
        await _noise_is_answered(wire, case, codes)
        return False
    async with asyncio.timeout(ANSWER_S):
        if case.is_watch:
            codes[(await wire.head())[0]] += 1
            return False
        response = await wire.read_response(is_head=case.method == "HEAD")
    _check(response)
    codes[response.code] += 1
    is_open = response.headers.get("connection") != "close"
    if is_open and not codes.total() % CHECKED_EVERY:
        await _check_connection(wire)
    return is_open


async def _check_connection(wire: Wire) -> None:
    """Check that the server does not take bytes of an earlier request for the next one."""
    async with asyncio.timeout(ANSWER_S):
        version = await wire.request("GET", "/version")
    if version.code != 200 or "gitVersion" not in version.json:
        raise Finding(f"the answer to the next request: {version}")


async def _noise_is_answered(wire: Wire, case: Case, codes: Counter[int]) -> None:
    """Check that damaged bytes get at least one response, and then the end of the connection."""
    async with asyncio.timeout(ANSWER_S):
        start = await wire.reader.read(65536)
        while await wire.reader.read(1 << 20):
            pass
    if not start and not case.data.strip(b"\r\n"):
        return
    if not start.startswith(b"HTTP/1."):
        raise Finding(f"no answer of HTTP: {start[:100]!r}")
    code = int(start[9:12])
    codes[code] += 1
    if code == 500 and b'"reason"' in start:
        raise Finding(f"{start!r}")


def _check(response: WireResponse) -> None:
    if "content-encoding" in response.headers:
        return
    if response.code == 500 and response.body:
        _is_as_recorded(response)
    elif response.code > 500 and response.code != 504:
        raise Finding(f"{response}")
    if response.code >= 400 and response.body and response.headers.get("content-type") == "application/json":
        status = response.json
        if status["kind"] != "Status" or status["code"] != response.code:
            raise Finding(f"{response}")
    if response.code < 300 and response.body and response.headers.get("content-type") == "application/json":
        msgspec.json.decode(response.body)


def _is_as_recorded(response: WireResponse) -> None:
    """Check a response 500: the real server sends it without a reason where it has no Status for an error."""
    if response.headers.get("content-type", "").startswith("text/plain"):
        if "unable to determine kind and namespace from url" not in response.text:
            raise Finding(f"{response}")
    elif response.headers.get("content-type") == "application/json" and response.json.get("reason"):
        raise Finding(f"{response}")


async def _check_server_works(port: int) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    async with Wire(port) as wire:
        assert (await wire.request("POST", maps, {"metadata": {"name": "after"}, "data": {"a": "b"}})).code == 201
        assert (await wire.request("GET", f"{maps}/after")).json["data"] == {"a": "b"}
        assert (await wire.request("GET", maps)).json["kind"] == "ConfigMapList"
        assert (await wire.request("DELETE", f"{maps}/after")).code == 200
        assert (await wire.request("GET", "/readyz")).text == "ok"
