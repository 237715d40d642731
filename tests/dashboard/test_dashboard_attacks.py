"""Attacks on the dashboard from other pages, other users and the network. Each name says what an attacker tries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from sampan.dashboard.loopback_server import loopback_dashboard
from sampan.dashboard.views.completion import cursor_context
from sampan.host.clock import RealClock
from sampan.machinery.client import kubeconfig
from sampan.testing import Cluster
from tests.dashboard.page import Page, admin_page, inline_kubeconfig, open_page, token_of
from tests.eventually import eventually
from tests.input_cost import is_quick

EVIL = "https://evil.example"
MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = "/api/v1/namespaces/large/configmaps"


def cookie_of(page: Page) -> tuple[str, str]:
    """Return the name and value of the session cookie."""
    ((name, cookie),) = page.http.cookie_jar.filter_cookies(page.http_url).items()
    return name, cookie.value


# -- log-in ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_log_in_from_another_site(cluster: Cluster, headers: dict[str, str | None]) -> None:
    async with open_page(cluster) as page:
        body = {"kubeconfig": inline_kubeconfig(cluster)}
        status, _, response = await page.request("POST", "api/login", json=body, headers=headers)
        assert (status, response.headers.get("Set-Cookie")) == (403, None)


async def test_log_in_by_a_form_of_another_site(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            headers: dict[str, str | None] = {"Content-Type": media_type}
            status, _, _ = await page.request("POST", "api/login", data=b'{"token":"x"}', headers=headers)
            assert status == 415


async def test_session_fixation_before_the_log_in(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        name, first = cookie_of(page)
        page.http.cookie_jar.update_cookies({name: "chosen-by-the-attacker"}, page.http_url)
        await page.log_in(kubeconfig=inline_kubeconfig(cluster))
        assert cookie_of(page)[1] not in (first, "chosen-by-the-attacker")
    async with open_page(cluster) as stranger:
        status, _, _ = await stranger.request("GET", "api/session", cookies={name: "chosen-by-the-attacker"})
        assert status == 401


async def test_use_the_previous_session_after_a_new_log_in(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, open_page(cluster) as thief:
        name, stolen = cookie_of(page)
        await page.log_in(kubeconfig=inline_kubeconfig(cluster))
        assert (await thief.request("GET", "api/session", cookies={name: stolen}))[0] == 401


async def test_read_the_cookie_by_script_or_over_plain_http(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        body = {"kubeconfig": inline_kubeconfig(cluster)}
        _, _, response = await page.request("POST", "api/login", json=body)
        header = response.headers["Set-Cookie"]
        assert header.startswith("__Host-sampan-")
        parts = [part.strip() for part in header.split(";")]
        assert {"HttpOnly", "Secure", "SameSite=Strict", "Path=/"} <= set(parts)
        assert not any(part.startswith("Domain") for part in parts)


@pytest.mark.parametrize(
    "user",
    [
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: [-c, 'touch /tmp/owned']}}",
        "{tokenFile: /etc/hostname}",
        "{client-certificate: /etc/ssl/cert.pem, client-key: /etc/ssl/key.pem}",
        "{auth-provider: {name: oidc, config: {idp-issuer-url: 'http://169.254.169.254/'}}}",
    ],
)
async def test_make_the_server_run_a_program_or_read_a_file_by_a_kubeconfig(cluster: Cluster, user: str) -> None:
    async with open_page(cluster) as page:
        text = f"current-context: a\ncontexts: [{{name: a, context: {{user: u}}}}]\nusers: [{{name: u, user: {user}}}]"
        status, body = await page.log_in(kubeconfig=text)
        assert (status, body["reason"]) == (400, "BadRequest")


async def test_log_in_without_credentials_as_the_anonymous_user(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        for credentials in ({}, {"token": ""}, {"token": "x y"}, {"code": ""}):
            assert (await page.log_in(**credentials))[0] == 401


async def test_exhaust_file_descriptors_by_failed_log_ins(cluster: Cluster) -> None:
    """The dashboard of another cluster opens HTTP connections for each log-in."""
    async with other_page(cluster) as page:
        assert (await page.log_in(token="guess"))[0] == 401
        earlier = open_sockets()
        for number in range(9):
            assert (await page.log_in(token=f"guess-{number}"))[0] == 401
        await eventually(lambda: open_sockets() <= earlier + 2)


@asynccontextmanager
async def other_page(cluster: Cluster) -> AsyncIterator[Page]:
    """A page of `sampan dashboard`, which reaches the cluster over HTTP as it would another Kubernetes.

    Cancelled requests close their connections with a TLS shutdown, which must end before the event loop does.
    """
    access, earlier = kubeconfig.load(cluster.kubeconfig), open_sockets()
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address
    async with (
        loopback_dashboard({"other": access}, port=0, clock=RealClock()) as url,
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        yield Page(session, url.partition("/ui/")[0], True)
    await eventually(lambda: open_sockets() <= earlier)


def open_sockets() -> int:
    """Return the number of sockets that this process has open."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            count += link.readlink().name.startswith("socket:")
    return count


async def test_find_a_token_in_the_log(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with admin_page(cluster) as admin, open_page(cluster) as page:
        token = await token_of(admin, "logged")
        await page.log_in(token=f"{token}broken")
        assert (await page.log_in(token=token))[0] == 200
        await page.k8s("GET", "/api/v1/secrets")
        assert token[-20:] not in caplog.text
        assert cookie_of(page)[1] not in caplog.text
        assert page.csrf not in caplog.text


# -- one-time codes --------------------------------------------------------------------------------------------------


async def code_of(cluster: Cluster, headers: dict[str, str] | None = None) -> tuple[int, str]:
    certificate, key = map(str, cluster.client_certificate)
    async with open_page(cluster) as page:
        assert not isinstance(page.tls, bool)
        page.tls.load_cert_chain(certificate, key)
        url = f"{page.url}/ui/api/code"
        async with page.http.post(url, ssl=page.tls, headers=headers or {}) as response:
            body = await response.json()
            return response.status, str(body.get("code", ""))


async def test_use_a_one_time_code_twice(cluster: Cluster) -> None:
    status, code = await code_of(cluster)
    assert status == 201
    async with open_page(cluster) as page, open_page(cluster) as thief:
        status, session = await page.log_in(code=code)
        assert status == 200
        assert "system:masters" in session["user"]["groups"]
        assert (await thief.log_in(code=code))[0] == 401


async def test_request_a_one_time_code_without_credentials_or_from_a_page(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        bare: dict[str, str | None] = {"Origin": None, "Sec-Fetch-Site": None, "X-Sampan-Csrf": None}
        assert (await page.request("POST", "api/code", headers=bare))[0] == 401
    assert (await code_of(cluster, {"Origin": EVIL}))[0] == 403
    assert (await code_of(cluster, {"Sec-Fetch-Site": "same-origin"}))[0] == 403


# -- requests of other pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Sampan-Csrf": None},
        {"X-Sampan-Csrf": "guessed"},
        {"X-Sampan-Csrf": "\u00e9"},
        {"Origin": EVIL},
        {"Origin": None},
        {"Origin": "https://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_write_from_another_site_with_the_cookie(cluster: Cluster, headers: dict[str, str | None]) -> None:
    async with admin_page(cluster) as page:
        body = {"metadata": {"name": "forged"}}
        status, _, _ = await page.request("POST", f"api/clusters/sampan/k8s{MAPS}", json=body, headers=headers)
        assert status == 403
        assert (await page.k8s("GET", f"{MAPS}/forged"))[0] == 404
        assert (await page.request("POST", "api/logout", headers=headers))[0] == 403


async def test_use_the_csrf_token_of_another_session(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, admin_page(cluster) as attacker:
        headers: dict[str, str | None] = {"X-Sampan-Csrf": attacker.csrf}
        assert (await page.request("POST", "api/logout", headers=headers))[0] == 403


async def test_read_from_another_site_or_port_with_the_cookie(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        for site in ("cross-site", "same-site"):
            headers: dict[str, str | None] = {"Sec-Fetch-Site": site, "Origin": None}
            assert (await page.request("GET", "api/session", headers=headers))[0] == 403
            path = "api/clusters/sampan/k8s/api/v1/secrets"
            assert (await page.request("GET", path, headers=headers))[0] == 403


@pytest.mark.parametrize(
    ("csrf", "headers"),
    [
        ("guessed", {}),
        ("", {}),
        (None, {"Origin": EVIL}),
        (None, {"Sec-Fetch-Site": "cross-site"}),
    ],
)
async def test_open_a_websocket_from_another_site(cluster: Cluster, csrf: str | None, headers: dict[str, str]) -> None:
    async with admin_page(cluster) as page:
        for path in ("stream", "k8s/api/v1/namespaces/default/pods/x/exec?command=sh&stdin=true"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                async with page.stream(f"api/clusters/sampan/{path}", csrf=csrf, headers=headers):
                    pass
            assert caught.value.status == 403


async def test_reach_the_server_by_dns_rebinding(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        for host in ("evil.example", "evil.example:6443", "127.0.0.1.evil.example", "localhost.evil.example", "[::g]"):
            headers: dict[str, str | None] = {"Host": host, "Origin": f"https://{host}"}
            for path in ("", "api/session", "api/clusters/sampan/k8s/api/v1/secrets"):
                assert (await page.request("GET", path, headers=headers))[0] in (400, 403)


async def test_show_the_page_in_a_frame_of_another_site(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        paths = ("", "assets/none.js", "api/session", "api/none", "api/clusters/sampan/k8s/api/v1/namespaces")
        for path in (*paths, "api/clusters/sampan/k8s/api/none", "api/clusters/sampan/k8s/healthz"):
            _, _, response = await page.request("GET", path)
            assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"], path
            assert response.headers["X-Frame-Options"] == "DENY"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in response.headers


# -- Kubernetes requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes/node-0/proxy/pods",
        "/api/v1/nodes/node-0/proxy",
        "/api/v1/namespaces/default/pods/web/proxy/",
        "/api/v1/namespaces/default/services/http:web:80/proxy/index.html",
        "/api/v1/proxy/namespaces/default/pods/web",
        "/api/v1/namespaces/default/pods/web/%70roxy/",
        "/api/v1/namespaces/default/pods/web/proxy%2Findex.html",
        "/api/v1/namespaces/default/pods/web//proxy/",
        "/api/v1/namespaces/default/pods/x/../web/proxy/",
        "/api/v1/./nodes/node-0/proxy/",
        "//api/v1/nodes/node-0/proxy/",
    ],
)
async def test_run_a_page_of_a_pod_on_the_origin_of_the_dashboard(cluster: Cluster, path: str) -> None:
    async with admin_page(cluster) as page:
        url = URL(f"{page.url}/ui/api/clusters/sampan/k8s{path}", encoded=True)
        async with page.http.get(url, headers=page.headers, ssl=page.tls, allow_redirects=False) as response:
            assert response.status in (400, 403), await response.text()
            assert response.content_type == "application/json"


async def test_become_another_user_by_headers(cluster: Cluster) -> None:
    async with admin_page(cluster) as admin, open_page(cluster) as page:
        await page.log_in(token=await token_of(admin, "limited"))
        for headers in (
            {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"},
            {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
            {"Authorization": f"Bearer {await token_of(admin, 'other')}"},
        ):
            status, body = await page.k8s("GET", "/api/v1/secrets", headers=headers)
            assert status == 403
            assert "system:serviceaccount:default:limited" in body["message"]


async def test_use_the_api_without_a_session(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        for path in ("api/session", "api/clusters/sampan/k8s/version", "api/clusters/sampan/overview", "api/none"):
            for cookies in ({}, {"__Host-sampan-1": "x"}):
                assert (await page.request("GET", path, cookies=cookies))[0] == 401


async def test_read_files_of_the_server(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        for path in ("../../../etc/passwd", "assets/..%2f..%2fsite.py", "assets/../../site.py", "%2e%2e/site.py"):
            url = URL(f"{page.url}/ui/{path}", encoded=True)
            async with page.http.get(url, ssl=page.tls) as response:
                text = await response.text()
                assert "root:" not in text
                assert "import" not in text or response.content_type == "text/html"


async def test_use_the_session_of_a_deleted_service_account(cluster: Cluster) -> None:
    async with admin_page(cluster) as admin, open_page(cluster) as page:
        await page.log_in(token=await token_of(admin, "deleted"))
        assert (await page.k8s("GET", "/api"))[0] == 200
        await admin.k8s("DELETE", "/api/v1/namespaces/default/serviceaccounts/deleted")
        assert (await page.k8s("GET", "/api"))[0] == 401


# -- streams ---------------------------------------------------------------------------------------------------------


async def test_keep_a_stream_after_the_log_out(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        await stream.send(id=1, op="subscribe", path=MAPS, table=True)
        await stream.receive(type="snapshot")
        name, cookie = cookie_of(page)
        assert (await page.request("POST", "api/logout"))[0] == 200
        message = await stream.socket.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 4401)
        async with open_page(cluster) as thief:
            assert (await thief.request("GET", "api/session", cookies={name: cookie}))[0] == 401


async def test_keep_a_watch_after_the_log_out(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        url = f"{page.url}/ui/api/clusters/sampan/k8s{MAPS}?watch=true&timeoutSeconds=300"
        async with page.http.get(url, headers=page.headers, ssl=page.tls) as response:
            assert response.status == 200
            assert (await page.request("POST", "api/logout"))[0] == 200
            with pytest.raises(aiohttp.ClientError):
                await response.read()


async def test_open_more_subscriptions_than_allowed(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        for number in range(33):
            await stream.send(id=number, op="subscribe", path="/api/v1/namespaces", table=True)
        while (message := await stream.receive())["type"] != "error":
            pass
        assert (message["id"], message["status"]["code"]) == (32, 429)


async def test_open_more_overview_subscriptions_than_allowed(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        for number in range(7):
            await stream.send(id=number, op="subscribe", kind="overview")
        while (message := await stream.receive())["type"] != "error":
            pass
        assert (message["id"], message["status"]["code"]) == (6, 429)


async def test_subscribe_to_large_lists_and_read_nothing(cluster: Cluster) -> None:
    """Only some pages of the lists are buffered for a client that does not read; no more pages are requested."""
    async with admin_page(cluster) as admin, other_page(cluster) as page:
        await admin.k8s("POST", "/api/v1/namespaces", json={"metadata": {"name": "large"}})
        for number in range(4):
            body = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 900_000}}
            assert (await admin.k8s("POST", LARGE, json=body))[0] == 201
        assert (await page.log_in(kubeconfig=inline_kubeconfig(cluster)))[0] == 200
        earlier = await list_count(admin)
        async with page.stream("api/clusters/other/stream") as stream:
            stream.pause()
            for number in range(30):
                await stream.send(id=number, op="subscribe", path=LARGE)
            await eventually(lambda: has_listed(admin, earlier + 4))
            for _ in range(50):
                assert (await page.request("GET", "api/session"))[0] == 200
            assert await list_count(admin) < earlier + 8
            stream.abort()


async def has_listed(page: Page, count: int) -> bool:
    return await list_count(page) >= count


async def list_count(page: Page) -> int:
    """Return how many lists of config maps the API server has served over HTTP."""
    _, metrics = await page.k8s("GET", "/metrics")
    labels = ("apiserver_request_total{", 'resource="configmaps"', 'verb="LIST"')
    samples = [line for line in metrics.splitlines() if all(label in line for label in labels)]
    return sum(int(float(sample.rpartition(" ")[2])) for sample in samples)


async def test_stall_the_server_by_the_completion_of_a_long_text(cluster: Cluster) -> None:
    """A line of dashes took quadratic time in the event loop: 11 seconds for 1 MB."""
    text = "- " * 250_000
    async with admin_page(cluster) as page:
        body = {"text": text, "offset": len(text)}
        status, response, _ = await page.request("POST", "api/clusters/sampan/complete", json=body)
        assert (status, response["completions"]) == (200, [])
    assert is_quick(lambda: cursor_context(text, len(text)))


async def test_subscribe_to_paths_that_are_not_lists(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        for number, path in enumerate(("/metrics", "/api/v1/nodes/n/proxy/", "/api/v1/../version", "", "/api/v1/x?y")):
            await stream.send(id=number, op="subscribe", path=path)
            message = await stream.receive(id=number)
            assert (message["type"], message["status"]["code"] in (400, 403)) == ("error", True), path


async def test_flood_the_stream_with_messages(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        for number in range(400):
            await stream.socket.send_str(f'{{"id":{number},"op":"ping"}}')
        message = await stream.socket.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)


@pytest.mark.parametrize(
    ("path", "field"), [("api/login", "token"), ("complete", "text"), ("diff", "manifest")], ids=lambda word: word
)
async def test_fill_the_log_with_bodies_that_are_not_utf8_or_deeply_nested(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, path: str, field: str
) -> None:
    async with admin_page(cluster) as page:
        where = path if path.startswith("api/") else f"api/clusters/sampan/{path}"
        for value in (b'"\xca\xff"', b"[" * 100_000):
            body = b'{"%b":%b,"offset":1}' % (field.encode(), value)
            headers: dict[str, str | None] = {"Content-Type": "application/json"}
            assert (await page.request("POST", where, data=body, headers=headers))[0] == 400
    assert "Traceback" not in caplog.text


async def test_send_malformed_messages_to_the_stream(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        for text in ("", "[]", '{"id":"x"}', '{"id":1,"op":"drop"}', '{"id":1,"op":"subscribe","kind":"secrets"}'):
            await stream.socket.send_str(text)
            assert (await stream.receive())["status"]["code"] == 400


async def test_guess_many_tokens_at_the_same_time(cluster: Cluster) -> None:
    """The limit counts by address: the attacker has one of their own, and users at other addresses can still log in."""
    async with open_page(cluster, source_address="127.0.0.2") as page:
        guesses = (page.log_in(token=f"guess-{number}") for number in range(40))
        statuses = [status for status, _ in await asyncio.gather(*guesses)]
        assert sorted(statuses) == [401] * 10 + [429] * 30
        status, _, response = await page.request("POST", "api/login", json={"token": "guess"})
        assert status == 429
        assert int(response.headers["Retry-After"]) > 0
        async with admin_page(cluster) as admin:
            assert (await admin.request("GET", "api/session"))[0] == 200
