"""Audit events of requests to a whole server: their content at each level, and what they never contain."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sampan.apiserver.audit.policy import parse
from sampan.apiserver.config.server_config import AuditConfig, ServerConfig
from sampan.apiserver.pipeline import Execute
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.response.responses import ApiResponse
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.storage.memory import MemoryBackend

ADMIN = UserInfo("admin", groups=(MASTERS, AUTHENTICATED))
SECRETS = "/api/v1/namespaces/default/secrets"
SECRET_VALUE = base64.b64encode(b"under the third palm").decode()
SECRET = {"metadata": {"name": "map"}, "data": {"place": SECRET_VALUE}}
SendRequests = Callable[[ApiServer], Awaitable[None]]


def collect_audit_log(
    tmp_path: Path, rules: list[dict[str, Any]], send_requests: SendRequests, **policy: Any
) -> list[dict[str, Any]]:
    """Run `send_requests` against a server with this audit policy and return the lines of its log.

    Requests of the server itself are not audited.
    """
    path = tmp_path / "audit.log"
    ignored = {"level": "None", "users": ["system:apiserver"]}
    value = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [ignored, *rules], **policy}
    config = ServerConfig(secure_port=0, any_insecure_port=True, audit=AuditConfig(policy=parse(value), path=str(path)))

    async def work() -> None:
        clock = RealClock()
        async with (
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
        ):
            await send_requests(server)

    asyncio.run(asyncio.wait_for(work(), 60))
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def send(
    server: ApiServer,
    method: str,
    target: str,
    value: Any = None,
    user: UserInfo = ADMIN,
    extra: dict[str, str] | None = None,
) -> None:
    path, _, query = target.partition("?")
    body = json.dumps(value, indent=1).encode() if value is not None else b""
    headers = {"Content-Type": "application/json", "User-Agent": "test", **(extra or {})}
    call = Call(method=method, path=path, query=Query(query), headers=headers, body=body, user=user)
    await server.pipeline.serve_as(call)


async def create_and_read_secret(server: ApiServer) -> None:
    await send(server, "POST", SECRETS, SECRET)
    await send(server, "GET", f"{SECRETS}/map")
    await send(server, "GET", SECRETS)


def test_metadata_level_has_no_bodies(tmp_path: Path) -> None:
    lines = collect_audit_log(tmp_path, [{"level": "Metadata"}], create_and_read_secret)
    assert [(line["verb"], line["stage"]) for line in lines] == [
        (verb, stage) for verb in ("create", "get", "list") for stage in ("RequestReceived", "ResponseComplete")
    ]
    assert all("requestObject" not in line and "responseObject" not in line for line in lines)
    assert SECRET_VALUE not in (tmp_path / "audit.log").read_text()
    completed = lines[3]
    assert completed["auditID"] == lines[2]["auditID"]
    assert {key: completed[key] for key in ("kind", "apiVersion", "level", "requestURI", "user", "sourceIPs")} == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "requestURI": f"{SECRETS}/map",
        "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
    }
    assert completed["objectRef"] == {"resource": "secrets", "namespace": "default", "name": "map", "apiVersion": "v1"}
    assert completed["responseStatus"] == {"metadata": {}, "code": 200}
    assert completed["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert "responseStatus" not in lines[2]
    assert lines[1]["objectRef"]["name"] == "map"
    assert lines[1]["responseStatus"]["code"] == 201


def test_request_level_has_only_the_request_body(tmp_path: Path) -> None:
    lines = collect_audit_log(tmp_path, [{"level": "Request"}], create_and_read_secret, omitStages=["RequestReceived"])
    assert lines[0]["requestObject"] == SECRET
    assert all("responseObject" not in line for line in lines)
    assert "requestObject" not in lines[1]


def test_request_response_level_has_both_bodies(tmp_path: Path) -> None:
    lines = collect_audit_log(
        tmp_path,
        [{"level": "RequestResponse"}],
        create_and_read_secret,
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    )
    created, stored, listed = (line["responseObject"] for line in lines)
    assert created["data"] == stored["data"] == listed["items"][0]["data"] == SECRET["data"]
    assert "managedFields" not in created["metadata"]
    assert "managedFields" not in listed["items"][0]["metadata"]


def test_policy_rules_set_the_level_of_each_request(tmp_path: Path) -> None:
    secrets = {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]}

    async def send_requests(server: ApiServer) -> None:
        await send(server, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}, "data": {}})
        await create_and_read_secret(server)

    lines = collect_audit_log(
        tmp_path, [secrets, {"level": "Request", "verbs": ["create"]}], send_requests, omitStages=["RequestReceived"]
    )
    assert [(line["objectRef"]["resource"], line["level"]) for line in lines] == [
        ("configmaps", "Request"),
        *[("secrets", "Metadata")] * 3,
    ]
    assert SECRET_VALUE not in (tmp_path / "audit.log").read_text()


def test_rejected_requests_are_audited(tmp_path: Path) -> None:
    async def send_requests(server: ApiServer) -> None:
        with pytest.raises(errors.Forbidden):
            await send(server, "GET", f"{SECRETS}/map", user=UserInfo("may", groups=(AUTHENTICATED,)))
        with pytest.raises(errors.NotFound):
            await send(
                server, "GET", f"{SECRETS}/map", extra={"Impersonate-User": "june", "Impersonate-Group": MASTERS}
            )

    forbidden, missing = collect_audit_log(
        tmp_path, [{"level": "Metadata"}], send_requests, omitStages=["RequestReceived"]
    )
    assert forbidden["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert forbidden["responseStatus"]["code"] == 403
    assert 'User "may" cannot get resource "secrets"' in forbidden["responseStatus"]["message"]
    assert missing["responseStatus"]["reason"] == "NotFound"
    assert missing["user"]["username"] == "admin"
    assert missing["impersonatedUser"]["username"] == "june"


def test_an_unauthenticated_request_is_audited(tmp_path: Path) -> None:
    async def send_requests(server: ApiServer) -> None:
        headers = {"Authorization": "Bearer wrong"}
        call = Call(method="GET", path=SECRETS, query=Query(""), headers=headers)
        with pytest.raises(errors.Unauthorized):
            await server.pipeline.serve(call)

    (line,) = collect_audit_log(tmp_path, [{"level": "Metadata"}], send_requests)
    assert (line["stage"], line["responseStatus"]["code"]) == ("ResponseStarted", 401)
    assert line["responseStatus"]["message"] == "Authentication failed, attempted: bearer"
    assert "wrong" not in json.dumps(line)


class _FailingRead:
    async def intercept(self, call: Call, execute: Execute) -> ApiResponse:
        if call.path == f"{SECRETS}/map":
            raise RuntimeError("secret words")
        return await execute(call)


def test_an_unexpected_error_is_audited_without_its_text(tmp_path: Path) -> None:
    async def send_requests(server: ApiServer) -> None:
        server.pipeline.use_interceptor(_FailingRead())
        with pytest.raises(RuntimeError):
            await send(server, "GET", f"{SECRETS}/map")

    (line,) = collect_audit_log(tmp_path, [{"level": "Metadata"}], send_requests, omitStages=["RequestReceived"])
    assert (line["stage"], line["responseStatus"]["code"]) == ("Panic", 500)
    assert "secret words" not in json.dumps(line)


def test_audit_id_header_identifies_the_audit_events_of_a_response(tmp_path: Path) -> None:
    """A watch has an event for its start and one for its end."""
    ids = []

    async def send_requests(server: ApiServer) -> None:
        url = f"http://127.0.0.1:{server.insecure_port}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}{SECRETS}?watch=1&timeoutSeconds=1", headers={"Audit-Id": "mine"}) as reply:
                ids.append(reply.headers["Audit-Id"])
                await reply.read()
            async with session.get(f"{url}{SECRETS}/none?pretty=a%20b") as reply:
                assert reply.status == 404
                ids.append(reply.headers["Audit-Id"])

    lines = collect_audit_log(tmp_path, [{"level": "Metadata"}], send_requests)
    assert [line["stage"] for line in lines] == [
        *("RequestReceived", "ResponseStarted", "ResponseComplete"),
        *("RequestReceived", "ResponseComplete"),
    ]
    assert [line["auditID"] for line in lines] == ["mine"] * 3 + [ids[1]] * 2
    assert lines[0]["verb"] == "watch"
    assert lines[-1]["requestURI"] == f"{SECRETS}/none?pretty=a%20b"
    assert lines[-1]["userAgent"].startswith("Python/")


async def test_requests_are_not_audited_without_a_policy() -> None:
    clock = RealClock()
    async with MemoryBackend(clock=clock) as backend:
        config = ServerConfig(secure_port=0)
        async with ApiServer(config=config, backend=backend, clock=clock) as server:
            call = Call(method="GET", path=SECRETS, query=Query(""), headers={}, user=ADMIN)
            await server.pipeline.serve_as(call)
            assert call.audit is None


YAML_BOMB = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (letter, letter, b", ".join([b"*%c" % (letter - 1)] * 10)) for letter in b"bcdefghi"
)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def post(server: ApiServer, path: str, body: bytes, media: str) -> tuple[int, bytes]:
    url = f"http://127.0.0.1:{server.insecure_port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers={"Content-Type": media}) as got:
        return got.status, await got.read()


def test_a_yaml_bomb_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    """The server rejects these 410 bytes of nested aliases, which would expand to 469 MB in the log."""
    codes = []

    async def send_requests(server: ApiServer) -> None:
        codes.append((await post(server, REVIEWS, YAML_BOMB, "application/yaml"))[0])

    lines = collect_audit_log(tmp_path, [{"level": "Request"}], send_requests)
    assert codes[0] in (400, 413)
    assert lines[-1]["responseStatus"]["code"] == codes[0]
    assert all("requestObject" not in line for line in lines)
    assert (tmp_path / "audit.log").stat().st_size < 10_000


def test_oversized_list_response_is_truncated_from_the_audit_event(tmp_path: Path) -> None:
    async def send_requests(server: ApiServer) -> None:
        for number in range(9):
            value = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 1_000_000}}
            await send(server, "POST", "/api/v1/namespaces/default/configmaps", value)
        await send(server, "GET", "/api/v1/namespaces/default/configmaps")

    lines = collect_audit_log(tmp_path, [{"level": "RequestResponse"}], send_requests)
    assert lines[-1]["annotations"]["audit.k8s.io/truncated"] == "true"
    assert "responseObject" not in lines[-1]
    assert "responseObject" in lines[-3]
