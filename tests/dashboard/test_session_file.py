"""Sessions survive a restart of the server, and the file that keeps them gives nobody else access."""

from __future__ import annotations

import dataclasses
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from sampan.cluster.cluster_config import ClusterConfig, DashboardConfig
from sampan.cluster.pki import Pki
from sampan.dashboard import session_file
from sampan.dashboard.session_file import SessionFile
from sampan.dashboard.sessions import IDLE_S, LIFETIME_S, MAX_SESSIONS, LoginSessions, User
from sampan.host.clock import VirtualClock
from sampan.host.http import HttpRequest
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi, UserCredentials
from sampan.testing import Cluster
from tests.dashboard.page import abort_connections, inline_kubeconfig, open_page

TOKEN = "token-that-nobody-may-read"


class SavedApi:
    """An API that is its credentials."""

    def __init__(self, saved: bytes) -> None:
        self.saved = saved

    async def close(self) -> None:
        return


class SavedApiSource:
    """Saves and restores APIs; `rejected` are credentials that are not valid any more."""

    def __init__(self) -> None:
        self.rejected: set[bytes] = set()

    async def open_with_credentials(self, credentials: UserCredentials) -> UserApi:
        return api(credentials.token.encode())

    async def open_for_request(self, request: HttpRequest) -> UserApi:
        raise errors.unauthorized()

    def save(self, api: UserApi) -> bytes:
        return cast(SavedApi, api).saved

    def restore(self, saved: bytes) -> UserApi:
        if saved in self.rejected:
            raise errors.unauthorized()
        return api(saved)


def api(saved: bytes = TOKEN.encode()) -> UserApi:
    return cast(UserApi, SavedApi(saved))


class Server:
    """Starts the sessions of a server again and again, with one file and one clock."""

    def __init__(self, directory: Path) -> None:
        self.path, self.clock, self.source = directory / "sessions.json", VirtualClock(), SavedApiSource()

    async def start(self) -> LoginSessions:
        archive = SessionFile(self.path, cluster="c", source=self.source, clock=self.clock)
        sessions = LoginSessions(clock=self.clock, archive=archive)
        await sessions.load()
        return sessions


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


async def test_a_session_continues_after_a_restart_with_its_user_and_csrf_token(server: Server) -> None:
    identifier, session = await (await server.start()).open(User("ann", ("devs",)), {"c": api()})
    restored = (await server.start()).get(identifier)
    assert restored is not None
    assert restored.user == User("ann", ("devs",))
    assert restored.csrf_token == session.csrf_token
    assert cast(SavedApi, restored.apis["c"]).saved == TOKEN.encode()


async def test_a_session_survives_several_restarts_without_being_used(server: Server) -> None:
    identifier, _ = await (await server.start()).open(User("ann"), {"c": api()})
    for _ in range(3):
        sessions = await server.start()
        await sessions.open(User("other"), {"c": api()})
        await sessions.stop()
    assert (await server.start()).get(identifier) is not None


@pytest.mark.parametrize(("pause_s", "survives"), [(IDLE_S - 1, True), (IDLE_S + 1, False)])
async def test_idle_time_passes_while_the_server_is_stopped(server: Server, pause_s: float, survives: bool) -> None:
    sessions = await server.start()
    identifier, _ = await sessions.open(User("ann"), {"c": api()})
    await sessions.stop()
    await server.clock.advance(pause_s)
    assert ((await server.start()).get(identifier) is not None) is survives


async def test_a_session_ends_after_twelve_hours_despite_restarts(server: Server) -> None:
    sessions = await server.start()
    identifier, _ = await sessions.open(User("ann"), {"c": api()})
    for _ in range(int(LIFETIME_S / IDLE_S) + 1):
        await server.clock.advance(IDLE_S - 10)
        sessions.touch(identifier)
        await sessions.stop()
        sessions = await server.start()
    await server.clock.advance(IDLE_S - 10)
    assert sessions.get(identifier) is None


async def test_activity_is_saved_for_a_server_that_is_killed(server: Server) -> None:
    sessions = await server.start()
    identifier, _ = await sessions.open(User("ann"), {"c": api()})
    await server.clock.advance(IDLE_S - 10)
    sessions.touch(identifier)
    await sessions.save_activity()
    await server.clock.advance(20)
    assert (await server.start()).get(identifier) is not None


async def test_a_wall_clock_that_was_set_back_does_not_extend_sessions(server: Server) -> None:
    identifier, _ = await (await server.start()).open(User("ann"), {"c": api()})
    server.clock.set_wall_clock(server.clock.now() - 3600)
    assert (await server.start()).get(identifier) is None


async def test_log_out_removes_the_session_from_the_file(server: Server) -> None:
    sessions = await server.start()
    identifier, session = await sessions.open(User("ann"), {"c": api()})
    await sessions.close(session)
    assert "ann" not in server.path.read_text()
    assert (await server.start()).get(identifier) is None


async def test_log_out_removes_a_file_that_cannot_be_replaced(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = await server.start()
    identifier, session = await sessions.open(User("ann"), {"c": api()})

    def fail(path: Path, content: bytes) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(session_file, "write_private", fail)
    await sessions.close(session)
    assert not server.path.exists()
    assert (await server.start()).get(identifier) is None


async def test_the_file_reveals_neither_identifiers_nor_credentials(server: Server) -> None:
    identifier, session = await (await server.start()).open(User("ann"), {"c": api()})
    content = server.path.read_bytes()
    assert server.path.stat().st_mode & 0o777 == 0o600
    for secret in (identifier, session.csrf_token, TOKEN):
        assert secret.encode() not in content
        assert msgspec.json.encode(secret.encode())[1:-3] not in content
    records = msgspec.json.decode(content)["sessions"]
    assert (await server.start()).get(records[0]["key"]) is None


async def test_credentials_that_are_not_valid_any_more_end_the_session(server: Server) -> None:
    identifier, _ = await (await server.start()).open(User("ann"), {"c": api()})
    server.source.rejected.add(TOKEN.encode())
    sessions = await server.start()
    assert sessions.get(identifier) is None
    assert len(sessions) == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"format":1,"sessions":[{"key":"YQ==","username":"a","openedAt":0,"activeAt":0,"sealed":"%%"}]}',
        b'{"format":1,"sessions":[{"key":"YQ==","username":"a","openedAt":NaN,"activeAt":0,"sealed":""}]}',
        b'{"format":2,"sessions":[]}',
        b'\xff\xfe{"format":1}',
    ],
    ids=["empty", "cut", "other type", "deep", "no base64", "NaN", "other format", "no UTF-8"],
)
async def test_a_damaged_file_ends_the_sessions(server: Server, content: bytes) -> None:
    server.path.write_bytes(content)
    server.path.chmod(0o600)
    sessions = await server.start()
    assert len(sessions) == 0
    identifier, _ = await sessions.open(User("ann"), {"c": api()})
    assert (await server.start()).get(identifier) is not None


async def test_changed_content_of_a_session_ends_it(server: Server) -> None:
    identifier, _ = await (await server.start()).open(User("ann"), {"c": api()})
    saved = msgspec.json.decode(server.path.read_bytes())
    for sealed in ("", "AAAA", "A" + saved["sessions"][0]["sealed"][1:]):
        saved["sessions"][0]["sealed"] = sealed
        server.path.write_bytes(msgspec.json.encode(saved))
        assert (await server.start()).get(identifier) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660])
async def test_a_file_that_others_may_read_is_not_used(server: Server, mode: int) -> None:
    identifier, _ = await (await server.start()).open(User("ann"), {"c": api()})
    server.path.chmod(mode)
    assert (await server.start()).get(identifier) is None


async def test_a_link_in_place_of_the_file_is_not_followed(server: Server, tmp_path: Path) -> None:
    identifier, _ = await (await server.start()).open(User("ann"), {"c": api()})
    moved = server.path.rename(tmp_path / "moved.json")
    os.symlink(moved, server.path)
    assert (await server.start()).get(identifier) is None


async def test_saved_sessions_are_limited_in_number_and_size(server: Server) -> None:
    sessions = await server.start()
    for number in range(MAX_SESSIONS + 5):
        await sessions.open(User(f"user-{number}"), {"c": api()})
    large, _ = await sessions.open(User("large"), {"c": api(b"x" * (64 << 10))})
    assert sessions.get(large) is not None
    assert len(msgspec.json.decode(server.path.read_bytes())["sessions"]) < MAX_SESSIONS + 1
    restarted = await server.start()
    assert len(restarted) <= MAX_SESSIONS
    assert restarted.get(large) is None


# -- a real server ---------------------------------------------------------------------------------------------------


class RestartableCluster(Cluster):
    """A cluster with its store and the sessions of its dashboard in a directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(components=("apiserver", "controllers"), store=directory / "state.db")
        self._directory_of_sessions = directory

    def _config(self, pki: Pki) -> ClusterConfig:
        dashboard = DashboardConfig(cluster_name="harbor", sessions=self._directory_of_sessions / "sessions.json")
        return dataclasses.replace(super()._config(pki), dashboard=dashboard)


async def cookies_after_restart(cluster: Cluster, cookies: Mapping[str, str]) -> dict[str, str]:
    """Return the cookies under the names that they have on the port of this cluster."""
    port = cluster.url.rpartition(":")[2]
    return {f"{name.rpartition('-')[0]}-{port}": value for name, value in cookies.items()}


async def issue_code(cluster: Cluster) -> str:
    """Return a one-time code for the administrator, as `sampan dashboard` gets it."""
    context = ssl.create_default_context(cafile=str(cluster.ca))
    context.load_cert_chain(*cluster.client_certificate)
    url = f"{cluster.url}/ui/api/code"
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json={}, ssl=context) as response:
            code = str((await response.json())["code"])
        abort_connections(session)
    return code


async def session_of(cluster: Cluster, cookies: Mapping[str, str]) -> tuple[int, Any]:
    async with open_page(cluster) as page:
        status, body, _ = await page.request(
            "GET", "api/session", cookies=await cookies_after_restart(cluster, cookies)
        )
        return status, body


@pytest.mark.parametrize("form", ["certificate", "token", "code"])
async def test_a_person_stays_logged_in_over_a_restart(tmp_path: Path, form: str) -> None:
    async with RestartableCluster(tmp_path) as cluster, open_page(cluster) as page:
        status, session = await page.log_in(kubeconfig=inline_kubeconfig(cluster))
        assert status == 200
        assert [entry["name"] for entry in session["clusters"]] == ["harbor"]
        if form == "code":
            assert (await page.log_in(code=await issue_code(cluster)))[0] == 200
        if form == "token":
            page_of_token = "api/clusters/harbor/k8s/api/v1/namespaces/default/serviceaccounts"
            await page.request("POST", page_of_token, json={"metadata": {"name": "ann"}})
            _, body, _ = await page.request("POST", f"{page_of_token}/ann/token", json={"spec": {}})
            assert (await page.log_in(token=body["status"]["token"]))[0] == 200
        cookies = {cookie.key: cookie.value for cookie in page.http.cookie_jar}
        csrf = page.csrf
    async with RestartableCluster(tmp_path) as cluster:
        status, session = await session_of(cluster, cookies)
        assert (status, session["csrf"]) == (200, csrf)
        expected = "system:serviceaccount:default:ann" if form == "token" else "kubernetes-admin"
        assert session["user"]["username"] == expected
        async with open_page(cluster) as page:
            page.csrf = csrf
            names = await cookies_after_restart(cluster, cookies)
            path = "api/clusters/harbor/k8s/api/v1/secrets"
            status, _, _ = await page.request("GET", path, cookies=names)
            assert status == (403 if form == "token" else 200)
            assert (await page.request("POST", "api/logout", cookies=names))[0] == 200
    async with RestartableCluster(tmp_path) as cluster:
        assert (await session_of(cluster, cookies))[0] == 401
