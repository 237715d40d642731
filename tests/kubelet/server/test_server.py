"""The kubelet's server over HTTP, WebSocket and SPDY, with containers that are real processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest

from sampan.api.types.core_v1 import Container, Pod
from sampan.kubelet.classic.cadvisor_port import CadvisorPort
from sampan.kubelet.server.ports import listen
from sampan.kubelet.server.server import HealthPort
from sampan.kubelet.server.view import ServerSettings
from sampan.machinery.multiplex import remote_command, upgrade
from sampan.machinery.multiplex.channels import V5
from sampan.machinery.multiplex.handshake import SPDY
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import StreamWire
from tests.kubelet.server.process_node import PlainNode, plain_node, plain_pod, serving
from tests.machinery.multiplex.pairs import echo_server

Test = Callable[[PlainNode, str, aiohttp.ClientSession], Awaitable[None]]


def _run_on_node(directory: Path, test: Test, settings: ServerSettings | None = None) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(60),
            plain_node(directory) as node,
            serving(node, settings=settings) as url,
            aiohttp.ClientSession() as session,
        ):
            await test(node, url, session)

    asyncio.run(main())


async def _text(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as response:
        return response.status, await response.text()


async def _exec(url: str, query: str, stdin: bytes | None = None) -> tuple[dict[int, bytes], int | None]:
    address, streams = urlsplit(url), {1: b"", 2: b""}
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    target = f"/exec/default/p/main?{query}"
    wire, protocol = await upgrade.open_websocket(reader, writer, target, [("Host", "node")], [V5])

    def output(number: int, data: bytes) -> None:
        streams[number] += data

    async def input() -> AsyncIterator[bytes]:
        yield stdin or b""

    socket = WebSocket(wire, is_server=False, protocol=protocol)
    status = await remote_command.run_client(socket, output, stdin=input() if stdin is not None else None)
    return streams, remote_command.exit_code(status)


def test_exec(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        out = "output=1&error=1"
        assert await _exec(url, f"command=sh&command=-c&command=echo+hi;echo+no+>%262;exit+4&{out}") == (
            {1: b"hi\n", 2: b"no\n"},
            4,
        )
        assert await _exec(url, f"command=cat&input=1&{out}", b"x" * 500_000) == ({1: b"x" * 500_000, 2: b""}, 0)
        _output, code = await _exec(url, f"command=/no/such&{out}")
        assert code != 0
        tty, code = await _exec(url, "command=sh&command=-c&command=tty&output=1&tty=1&input=1", b"")
        assert (tty[1].startswith(b"/dev/pts/"), code) == (True, 0)

    _run_on_node(tmp_path, test)


def test_healthz_port(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        async with listen(HealthPort(view=node).handle, host="127.0.0.1", port=0, tls=None) as port:
            at = f"http://127.0.0.1:{port}"
            assert await _text(session, f"{at}/healthz") == (200, "ok")
            assert await _text(session, f"{at}/healthz/syncloop") == (200, "ok")
            assert "[+]syncloop ok\n" in (await _text(session, f"{at}/healthz?verbose"))[1]
            for path in ("/healthz/none", "/pods", "/metrics"):
                assert (await _text(session, at + path))[0] == 404

    _run_on_node(tmp_path, test)


def test_results_of_health_checks_on_every_port_are_metrics_of_the_kubelet(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        async with listen(HealthPort(view=node).handle, host="127.0.0.1", port=0, tls=None) as port:
            await _text(session, f"http://127.0.0.1:{port}/healthz")
            await _text(session, f"{url}/healthz?exclude=ping")
            await _text(session, f"{url}/healthz/log")
        _, metrics = await _text(session, f"{url}/metrics/slis")
        assert 'kubernetes_healthcheck{name="syncloop",type="healthz"} 1\n' in metrics
        assert 'kubernetes_healthchecks_total{name="syncloop",type="healthz",status="success"} 2\n' in metrics
        assert 'kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 1\n' in metrics
        async with session.delete(f"{url}/metrics/slis") as response:
            assert await response.text() == "metrics reset\n"
        assert "kubernetes_healthcheck" not in (await _text(session, f"{url}/metrics/slis"))[1]

    _run_on_node(tmp_path, test)


def test_exec_over_spdy(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        headers = [("Host", "node"), ("Connection", "Upgrade"), ("Upgrade", SPDY)]
        headers += [("X-Stream-Protocol-Version", name) for name in ("v9.channel.k8s.io", "v4.channel.k8s.io")]
        target = "/exec/default/p/uid-p/main?command=cat&input=1&output=1"
        writer.write(upgrade.request_head("POST", target, headers))
        head = await upgrade.read_response_head(reader)
        assert (head.code, head.get("X-Stream-Protocol-Version")) == (101, "v4.channel.k8s.io")
        async with SpdyConnection(StreamWire(reader, writer), is_server=False) as client:
            streams = {name: await client.open({"streamType": name}) for name in ("error", "stdin", "stdout")}
            await streams["stdin"].write(b"hello")
            await streams["stdin"].close()
            assert await streams["stdout"].read() == b"hello"
            assert msgspec.json.decode(await streams["error"].read())["status"] == "Success"

    _run_on_node(tmp_path, test)


def test_exec_errors(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        for target, code, text in (
            ("/exec/default/p/main?command=ls&output=1", 400, "Upgrade request required"),
            ("/exec/default/p/main?command=ls", 400, "you must specify at least 1 of stdin, stdout, stderr"),
            ("/exec/default/q/main?command=ls&output=1", 404, "pod does not exist"),
            ("/exec/default/p/other/main?output=1", 404, "pod not found"),
            ("/exec/default/p/side?command=ls&output=1", 500, 'container not found ("side")'),
            ("/exec/default/p", 404, "404 page not found\n"),
        ):
            assert await _text(session, url + target) == (code, text), target

    _run_on_node(tmp_path, test)


def test_attach_streams_output_and_detaches(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("cat", stdin=True))
        for word in (b"one", b"two"):
            address = f"{url}/attach/default/p/main?input=1&output=1".replace("http", "ws", 1)
            async with session.ws_connect(address, protocols=["v4.channel.k8s.io"]) as socket:
                await socket.receive_bytes()
                await socket.send_bytes(b"\0" + word)
                assert await socket.receive_bytes() == b"\1" + word

    _run_on_node(tmp_path, test)


@pytest.mark.parametrize("stdin_once", [False, True])
def test_attach_ends_with_the_input_of_the_client(tmp_path: Path, stdin_once: bool) -> None:
    """A container without stdinOnce keeps its stdin, and the client is detached; one with it sees the end of input.
    Over SPDY and over WebSockets alike."""

    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        for attempt, attach in enumerate((_attach_over_spdy, _attach_over_websocket)):
            name = f"p{attempt}"
            await node.run(plain_pod("sh", "-c", "cat && echo closed", name=name, stdin=True, stdinOnce=stdin_once))
            async with asyncio.timeout(60):
                output, status = await attach(session, f"{url}/attach/default/{name}/main?input=1&output=1")
            assert output == (b"abcd\nclosed\n" if stdin_once else b"abcd\n")
            assert status == {"metadata": {}, "status": "Success"}

    _run_on_node(tmp_path, test)


async def _attach_over_spdy(session: aiohttp.ClientSession, url: str) -> tuple[bytes, Any]:
    """Send a line, wait until it comes back, and end the input; return the output and the status."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    headers = [("Host", "node"), ("Connection", "Upgrade"), ("Upgrade", SPDY)]
    headers.append(("X-Stream-Protocol-Version", "v4.channel.k8s.io"))
    writer.write(upgrade.request_head("POST", f"{address.path}?{address.query}", headers))
    assert (await upgrade.read_response_head(reader)).code == 101
    async with SpdyConnection(StreamWire(reader, writer), is_server=False) as client:
        streams = {name: await client.open({"streamType": name}) for name in ("error", "stdin", "stdout")}
        await streams["stdin"].write(b"abcd\n")
        output = await streams["stdout"].read()
        await streams["stdin"].close()
        while data := await streams["stdout"].read():
            output += data
        return output, msgspec.json.decode(await streams["error"].read())


async def _attach_over_websocket(session: aiohttp.ClientSession, url: str) -> tuple[bytes, Any]:
    output, status = b"", b""
    async with session.ws_connect(url.replace("http", "ws", 1), protocols=["v5.channel.k8s.io"]) as socket:
        await socket.send_bytes(b"\0abcd\n")
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            output += message.data[1:] if message.data[:1] == b"\1" else b""
            status += message.data[1:] if message.data[:1] == b"\3" else b""
            if message.data == b"\1abcd\n":
                await socket.send_bytes(b"\xff\0")  # the end of channel 0
    return output, msgspec.json.decode(status)


def test_port_forward_over_websocket_channels(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        server, port = await echo_server()
        async with server:
            address = f"{url}/portForward/default/p?port={port}".replace("http", "ws", 1)
            async with session.ws_connect(address, protocols=["v4.channel.k8s.io"]) as socket:
                assert [(await socket.receive_bytes())[:1] for _ in range(2)] == [b"\0", b"\1"]
                await socket.send_bytes(b"\0hello")
                assert await socket.receive_bytes() == b"\0hello"
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{url}/portForward/default/p".replace("http", "ws", 1))
            assert refused.value.status == 400

    _run_on_node(tmp_path, test)


def test_run(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        async with session.post(f"{url}/run/default/p/main?cmd=echo+hello") as response:
            assert (response.status, await response.read()) == (200, b"hello\n")
        async with session.post(f"{url}/run/default/p/main?cmd=false") as response:
            assert response.status == 500

    _run_on_node(tmp_path, test)


def test_logs(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        pod = await node.run(plain_pod("sh", "-c", "echo one; echo two; sleep 1000"))
        base = f"{url}/containerLogs/default/p/main"
        async with session.get(f"{base}?follow=true") as response:
            assert [await response.content.readline() for _ in range(2)] == [b"one\n", b"two\n"]
            assert await _text(session, f"{base}?tailLines=1") == (200, "two\n")
            assert await _text(session, f"{base}?limitBytes=5") == (200, "one\nt")
            _status, text = await _text(session, f"{base}?timestamps=1")
            assert [line.split(" ")[1] for line in text.splitlines()] == ["one", "two"]
            await node.runtime.end(pod, "main")
            assert await response.content.read() == b""
        assert await _text(session, f"{base}?previous=1") == (
            400,
            'previous terminated container "main" in pod "p" not found',
        )
        assert pod.spec.containers
        await node.runtime.begin(pod, Container(name="main", image="", command=["sleep", "1000"]))
        node.set_pod_status(pod)
        assert await _text(session, f"{base}?previous=1") == (200, "one\ntwo\n")
        assert await _text(session, base) == (200, "")

    _run_on_node(tmp_path, test)


def test_logs_errors(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        pod = plain_pod("sleep")
        node.known["default", "p"] = pod
        base = f"{url}/containerLogs/default/p/main"
        for target, code, text in (
            (base, 400, 'container "main" in pod "p" is not available'),
            (f"{url}/containerLogs/default/q/main", 404, 'pod "q" does not exist'),
            (f"{url}/containerLogs/default/p/side", 404, 'container "side" not found in pod "p"'),
            (f"{url}/containerLogs/default", 400, '{"message": "Missing podID."}'),
            (f"{base}?tailLines=x", 400, '{"message": "Unable to decode query."}'),
            (f"{base}?tailLines=-1", 422, '{"message": "Invalid request."}'),
            (f"{base}?limitBytes=0", 422, '{"message": "Invalid request."}'),
        ):
            assert await _text(session, target) == (code, text), target

    _run_on_node(tmp_path, test)


def test_pods_stats_and_metrics_endpoints(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))

        async def json(path: str) -> object:
            async with session.get(url + path) as response:
                assert response.status == 200, path
                return await response.json()

        pods = msgspec.convert(await json("/pods"), type=dict[str, object])
        assert (pods["kind"], pods["apiVersion"]) == ("PodList", "v1")
        (listed_pod,) = msgspec.convert(pods["items"], type=list[Pod])
        assert (listed_pod.metadata.name, listed_pod.status.phase) == ("p", "Running")
        assert await json("/runningpods/")
        assert await json("/configz") == {"kubeletconfig": {"kind": "KubeletConfiguration", "port": 10250}}
        summary = await json("/stats/summary")
        assert isinstance(summary, dict)
        assert summary["node"]["nodeName"] == "plain"
        (stats,) = summary["pods"]
        assert stats["podRef"] == {"name": "p", "namespace": "default", "uid": "uid-p"}
        assert stats["containers"][0]["cpu"]["usageNanoCores"] == 250_000_000
        assert stats["memory"]["workingSetBytes"] == 30 << 20
        assert isinstance(spec := await json("/spec/"), dict)
        assert spec["num_cores"] > 0
        assert (await _text(session, f"{url}/healthz")) == (200, "ok")
        assert (await _text(session, f"{url}/healthz/syncloop")) == (200, "ok")
        _, metrics = await _text(session, f"{url}/metrics/resource")
        assert 'container_cpu_usage_seconds_total{container="main",namespace="default",pod="p"} 2.5 ' in metrics
        assert "node_memory_working_set_bytes " in metrics
        _, metrics = await _text(session, f"{url}/metrics/cadvisor")
        assert 'container_memory_working_set_bytes{container="main",id="/kubepods/poduid-p/uid-p-main-0"' in metrics
        assert (await _text(session, f"{url}/metrics"))[1].endswith("kubelet_running_pods 1\n")
        assert (await _text(session, f"{url}/nothing"))[0] == 404
        assert (await _text(session, f"{url}/debug/pprof/goroutine"))[1].startswith("tasks: total")

    _run_on_node(tmp_path, test)


def test_logs_endpoint_serves_only_files_of_the_log_directory(tmp_path: Path) -> None:
    logs = tmp_path / "var-log"
    logs.mkdir()
    (logs / "syslog").write_text("hello\n")
    (tmp_path / "secret").write_text("secret\n")
    (logs / "link").symlink_to(tmp_path / "secret")

    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        assert await _text(session, f"{url}/logs/syslog") == (200, "hello\n")
        assert '<a href="syslog">syslog</a>' in (await _text(session, f"{url}/logs/"))[1]
        for path in ("link", "..%2fsecret", "../secret", "none"):
            assert (await _text(session, f"{url}/logs/{path}"))[0] == 404, path

    _run_on_node(tmp_path / "node", test, ServerSettings(node_logs=logs))


def test_reading_endpoints_refuse_other_methods(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        for path in ("/pods", "/logs/", "/containerLogs/a/b/c", "/runningpods/", "/stats/summary", "/debug/pprof/"):
            for method in ("POST", "HEAD"):
                async with session.request(method, url + path) as response:
                    assert (response.status, response.headers["Allow"]) == (405, "GET"), (method, path)

    _run_on_node(tmp_path, test, ServerSettings(node_logs=tmp_path))


def test_debugging_endpoints_respond_405_when_disabled(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        for path in ("/run/a/b/c", "/exec/a/b/c", "/logs/", "/runningpods/", "/containerLogs/a/b/c", "/debug/pprof/"):
            assert await _text(session, url + path) == (405, "Debug endpoints are disabled.\n")
        assert (await _text(session, f"{url}/pods"))[0] == 200

    _run_on_node(tmp_path, test, ServerSettings(has_debugging=False))


def test_cadvisor_port(tmp_path: Path) -> None:
    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        async with listen(CadvisorPort(view=node).handle, host="127.0.0.1", port=0, tls=None) as port:
            base = f"http://127.0.0.1:{port}"
            status, page = await _text(session, f"{base}/")
            assert (status, "/kubepods/poduid-p" in page, "Processes" in page) == (200, True, True)
            async with session.get(f"{base}/api/v1.3/containers/kubepods/poduid-p") as response:
                info = await response.json()
            assert info["stats"][0]["memory"]["working_set"] == 30 << 20
            async with session.get(f"{base}/api/v2.0/ps") as response:
                assert any(process["pid"] > 0 for process in await response.json())
            async with session.get(f"{base}/api/v1.3/machine") as response:
                assert (await response.json())["memory_capacity"] > 0
            assert (await _text(session, f"{base}/api/v1.3/containers/none"))[0] == 404
            assert (await _text(session, f"{base}/metrics"))[0] == 200

    _run_on_node(tmp_path, test)


INVALID_STREAM_DATA = (b"", b"\x80\x03\x00\x01", b"GET / HTTP/1.1\r\n\r\n" * 9, b"\xff" * 5000)


@pytest.mark.parametrize("form", ["spdy", "websocket"])
@pytest.mark.parametrize("path", ["/exec/default/p/main?command=cat&input=1&output=1", "/portForward/default/p?port=1"])
def test_invalid_stream_data_does_not_break_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, form: str
) -> None:
    headers = [("Host", "node")]
    if form == "spdy":
        headers += [("Connection", "Upgrade"), ("Upgrade", SPDY)]
        headers += [("X-Stream-Protocol-Version", name) for name in ("v4.channel.k8s.io", "portforward.k8s.io")]
    else:
        headers += upgrade.websocket_headers(["v4.channel.k8s.io"], "dGhlIHNhbXBsZSBub25jZQ==")

    async def test(node: PlainNode, url: str, session: aiohttp.ClientSession) -> None:
        await node.run(plain_pod("sleep", "1000"))
        address = urlsplit(url)
        for data in INVALID_STREAM_DATA:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(upgrade.request_head("GET", path, headers))
            assert (await upgrade.read_response_head(reader)).code == 101, data
            writer.write(data)
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            assert await _text(session, f"{url}/healthz") == (200, "ok"), data
            assert [record for record in caplog.records if record.levelname == "ERROR"] == [], data

    _run_on_node(tmp_path, test)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
