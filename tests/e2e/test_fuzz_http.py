"""Thousands of requests, most of them bad, leave the server as it was: every one that is HTTP gets a proper answer, no
failure is the server's own, nothing is logged as one, and no connection, watch or task is left. The event loop is never
held (`conftest.py` fails a test whose watchdog fires), and a connection that stays open answers the next request."""

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
"""After so many answers a connection is checked with a request that has a known answer."""


class Finding(AssertionError):
    """A case that the server did not deal with properly."""


@pytest.mark.parametrize(
    ("fuzzer", "count"),
    [pytest.param(Fuzzer, COUNT, id="objects and noise"), pytest.param(HttpFuzzer, COUNT // 3, id="HTTP and options")],
)
def test_bad_requests_do_no_harm(caplog: pytest.LogCaptureFixture, fuzzer: type[Fuzzer], count: int) -> None:
    caplog.set_level(logging.WARNING)
    gc.collect()  # what tests before this one have left complains now if it does
    caplog.clear()
    codes = asyncio.run(_run(fuzzer, count))
    assert sum(codes.values()) > count * 0.7
    assert len(codes) >= 8, f"too little of what a server can answer was seen: {codes}"
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
        await _works_as_before(port)
        http = cluster.assembly.server._http
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
    """Whether the connection can be used again."""
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
    """Bytes of an earlier request that the server took for the next one would show."""
    async with asyncio.timeout(ANSWER_S):
        version = await wire.ask("GET", "/version")
    if version.code != 200 or "gitVersion" not in version.json:
        raise Finding(f"the answer to the next request: {version}")


async def _noise_is_answered(wire: Wire, case: Case, codes: Counter[int]) -> None:
    """Damaged bytes get at least one answer, and then an end."""
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
    """The real server answers 500 without a reason where it has no Status for what it found."""
    if response.headers.get("content-type", "").startswith("text/plain"):
        if "unable to determine kind and namespace from url" not in response.text:
            raise Finding(f"{response}")
    elif response.headers.get("content-type") == "application/json" and response.json.get("reason"):
        raise Finding(f"{response}")


async def _works_as_before(port: int) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    async with Wire(port) as wire:
        assert (await wire.ask("POST", maps, {"metadata": {"name": "after"}, "data": {"a": "b"}})).code == 201
        assert (await wire.ask("GET", f"{maps}/after")).json["data"] == {"a": "b"}
        assert (await wire.ask("GET", maps)).json["kind"] == "ConfigMapList"
        assert (await wire.ask("DELETE", f"{maps}/after")).code == 200
        assert (await wire.ask("GET", "/readyz")).text == "ok"
