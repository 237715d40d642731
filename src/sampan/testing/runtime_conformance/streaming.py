"""Exec, attach, port forwarding and resource usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sampan.api.types.core_v1 import Pod
from sampan.runtimes.contract import ContainerUsage, ProcessStream, RuntimeFailure, Unsupported, collect_output
from sampan.testing.runtime_conformance.bench import FOREVER, RuntimeBench, expect_failure, open_bench, wait_until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()
_INPUT_SIZE = 300_000
_PORT = 8097


@CHECKS.add()
async def unsupported_operations_raise_unsupported(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, FOREVER)
        calls: dict[Feature, Callable[[], Awaitable[object]]] = {
            Feature.EXEC: lambda: bench.runtime.exec(pod, "c", ["true"]),
            Feature.ATTACH: lambda: bench.runtime.attach(pod, "c"),
            Feature.CONNECT: lambda: bench.runtime.connect(pod, 80),
        }
        for feature, call in calls.items():
            if feature in subject.lacks:
                assert isinstance(await expect_failure(call()), Unsupported)


@CHECKS.add(Feature.EXEC)
async def exec_returns_output_and_exit_code(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, FOREVER, env=[("OF", "the container")], working_directory="/tmp")
        code, out, err = await bench.exec(pod, 'echo "$OF"; pwd; echo wrong >&2; exit 5')
        assert (code, out, err) == (5, "the container\n/tmp\n", "wrong\n")
        codes = await asyncio.gather(*(bench.exec(pod, f"sleep 0.1; exit {number}") for number in range(4)))
        assert [code for code, _, _ in codes] == [0, 1, 2, 3]
        try:
            code, _, _ = await bench.exec(pod, ["/no/such/program"])
        except RuntimeFailure:
            code = 127  # some runtimes raise an error instead of returning an exit code
        assert code != 0
        await expect_failure(bench.runtime.exec(pod, "nobody", ["true"]))


@CHECKS.add(Feature.EXEC)
async def exec_forwards_stdin(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, FOREVER)
        stream = await bench.runtime.exec(pod, "c", ["/bin/cat"], has_stdin=True)
        content = bytes(range(256)) * (_INPUT_SIZE // 256)
        whole = asyncio.ensure_future(collect_output(stream))
        await stream.write(content)
        await stream.close_input()
        code, out, err = await whole
        assert (code, len(out), err) == (0, len(content), b"")
        assert out == content


@CHECKS.add(Feature.EXEC)
async def exec_with_tty_can_be_resized(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, FOREVER)
        script = "test -t 0 && echo terminal; while read line; do stty size; done"
        stream = await bench.runtime.exec(pod, "c", ["/bin/sh", "-c", script], has_stdin=True, has_tty=True)
        try:
            await read_until(stream, b"terminal")
            await stream.resize(123, 45)
            await _write_until(stream, b"45 123")
            await stream.write(b"\x04")
            assert await stream.wait() == 0
        finally:
            await stream.close()


@CHECKS.add(Feature.EXEC, Feature.ENDS_ABANDONED)
async def exec_command_is_killed_when_the_client_disconnects(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, FOREVER)
        stream = await bench.runtime.exec(pod, "c", ["/bin/sh", "-c", "echo ready; exec sleep 1000009"])
        await read_until(stream, b"ready")
        await stream.close()
        for _ in range(100):
            if await bench.output(pod, "ps | grep -c 'sleep 100000[9]' || true") == "0":
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the command is still running")


@CHECKS.add(Feature.ATTACH)
async def attach_forwards_stdin_and_reports_the_exit_code(subject: Subject) -> None:
    """Input reaches the container, detaching does not stop it, and the exit code is reported."""
    async with open_bench(subject) as bench:
        pod = await _start_echo_container(bench, tty=False)
        first = await bench.runtime.attach(pod, "c")
        await first.write(b"one\n")
        await read_until(first, b"got one")
        await first.close()
        second = await bench.runtime.attach(pod, "c")
        try:
            await second.write(b"two\n")
            await read_until(second, b"got two")
            await second.write(b"end\n")
            assert await second.wait() == 9
        finally:
            await second.close()
        assert (await bench.wait_for_exit(pod)).exit_code == 9
        assert {"got one", "got two"} <= set(bench.log(pod))


@CHECKS.add(Feature.ATTACH)
async def attach_with_tty_can_be_resized(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await _start_echo_container(bench, tty=True)
        stream = await bench.runtime.attach(pod, "c")
        try:
            await stream.resize(99, 33)
            await _write_until(stream, b"33 99", b"size\n")
        finally:
            await stream.close()


async def _start_echo_container(bench: RuntimeBench, *, tty: bool) -> Pod:
    pod = bench.pod(stdin=True, tty=tty)
    await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod))
    script = (
        'while read line; do case "$line" in end) exit 9;; size) stty size;; *) echo "got $line"; echo log >&2;; '
        "esac; done"
    )
    await bench.start(pod, script, has_stdin=True, has_tty=tty)
    return pod


async def read_until(stream: ProcessStream, expected: bytes) -> bytes:
    output = b""
    while expected not in output:
        piece = await stream.read()
        assert piece is not None, f"the stream was closed after {output!r}"
        output += piece[1]
    return output


async def _write_until(stream: ProcessStream, expected: bytes, question: bytes = b"\n") -> None:
    """Repeat the question until the expected output: a terminal's size changes some time after the request."""
    output = b""
    for _ in range(400):
        await stream.write(question)
        piece = await stream.read()
        assert piece is not None, f"the stream was closed after {output!r}"
        output += piece[1]
        if expected in output:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"expected {expected!r} in the output, got {output!r}")


@CHECKS.add(Feature.CONNECT)
async def pod_port_can_be_reached(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, f"echo ready; exec busybox nc -ll -p {_PORT} -e busybox cat")
        await wait_until(lambda: bool(bench.log(pod)), "the server does not start")
        for text in (b"one\n", b"two\n"):
            assert await _echo(bench, pod, text) == text
        with suppress(RuntimeFailure):  # a runtime may raise, or close the connection at once
            reader, writer = await bench.runtime.connect(pod, 9)
            content = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert content == b""


async def _echo(bench: RuntimeBench, pod: Pod, text: bytes) -> bytes:
    """Return the echoed text; retry while the server is not listening yet."""
    for _ in range(1000):
        try:
            reader, writer = await bench.runtime.connect(pod, _PORT)
        except RuntimeFailure:
            await asyncio.sleep(0.05)
            continue
        writer.write(text)
        response = await reader.readline()
        writer.close()
        await writer.wait_closed()
        if response:
            return response
        await asyncio.sleep(0.05)
    raise AssertionError("nothing listens")


@CHECKS.add(Feature.STATS)
async def container_stats(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("busy", "idle")
        await bench.start(pod, "while :; do :; done", "busy")
        await bench.start(pod, FOREVER, "idle")
        usages: dict[str, ContainerUsage] = {}
        for _ in range(100):  # on a busy machine the container gets little CPU time at first
            await asyncio.sleep(0.5)
            usages = {usage.name: usage for usage in await bench.runtime.stats(pod)}
            if usages["busy"].cpu_cores > 0 and (usages["busy"].cpu_s or 0) > (usages["idle"].cpu_s or 0):
                break
        else:
            raise AssertionError(f"the busy container does not use more CPU than the idle one: {usages}")
        assert usages["busy"].memory_bytes > 0
        assert await bench.runtime.stats(bench.pod()) in ([], ())
