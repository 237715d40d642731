"""Exec, attach, port forwarding and resource usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from sampan.api.types.core_v1 import Pod
from sampan.runtimes.contract import (
    RUNNING,
    ContainerUsage,
    ProcessStream,
    RuntimeFailure,
    Unsupported,
    collect_output,
)
from sampan.testing.runtime_conformance.bench import FOREVER, RuntimeBench, expect_failure, open_bench, wait_until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()
_INPUT_SIZE = 300_000


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
async def attach_forwards_stdin(subject: Subject) -> None:
    """Input reaches the container, and detaching does not stop it."""
    async with open_bench(subject) as bench:
        pod = await _start_echo_container(bench, tty=False)
        first = await bench.runtime.attach(pod, "c", has_stdin=True)
        await first.write(b"one\n")
        await read_until(first, b"got one")
        await first.close()
        second = await bench.runtime.attach(pod, "c", has_stdin=True)
        try:
            await second.write(b"two\n")
            await read_until(second, b"got two")
            await second.write(b"end\n")
            assert await second.wait() == 0
        finally:
            await second.close()
        assert (await bench.wait_for_exit(pod)).exit_code == 9
        assert {"got one", "got two"} <= set(bench.log(pod))


@CHECKS.add(Feature.ATTACH)
async def attach_with_tty_can_be_resized(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await _start_echo_container(bench, tty=True)
        stream = await bench.runtime.attach(pod, "c", has_stdin=True)
        try:
            await stream.resize(99, 33)
            await _write_until(stream, b"33 99", b"size\n")
        finally:
            await stream.close()


class _InputCase(NamedTuple):
    """A container, and what happens when the input of an attached client ends."""

    stdin: bool
    tty: bool
    stdin_once: bool
    is_closed: bool = False
    """Whether the stdin of the container is closed. Otherwise it stays open for the next client, if there is one."""
    is_detached: bool = False
    """Whether the output for the client ends, and the client is disconnected, while the container keeps running."""


_INPUT_CASES = (
    _InputCase(stdin=True, tty=False, stdin_once=True, is_closed=True),
    _InputCase(stdin=True, tty=False, stdin_once=False, is_detached=True),
    _InputCase(stdin=True, tty=True, stdin_once=True, is_detached=True),
    _InputCase(stdin=True, tty=True, stdin_once=False, is_detached=True),
    _InputCase(stdin=False, tty=False, stdin_once=False),
    _InputCase(stdin=False, tty=True, stdin_once=False),
)
_TICKS = 15
_ATTACHED = "(while :; do echo tick; sleep 0.2; done)& cat && echo closed; wait"


@CHECKS.add(Feature.ATTACH)
async def end_of_input_detaches_the_client_or_closes_stdin(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        await asyncio.gather(*(_check_end_of_input(bench, case) for case in _INPUT_CASES))


async def _check_end_of_input(bench: RuntimeBench, case: _InputCase) -> None:
    pod = await _start_input_case(bench, case)
    stream = await bench.runtime.attach(pod, "c", has_stdin=True)
    try:
        await stream.write(b"first\n")
        await read_until(stream, b"tick")
        await stream.close_input()
        assert await _ends_within(stream, _TICKS) == case.is_detached, case
        if case.is_detached:
            assert await stream.wait() == 0
    finally:
        await stream.close()
    await _check_stdin_afterwards(bench, pod, case)


@CHECKS.add(Feature.ATTACH)
async def disconnection_of_a_client_is_the_end_of_its_input(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        await asyncio.gather(*(_check_disconnection(bench, case) for case in _INPUT_CASES))


async def _check_disconnection(bench: RuntimeBench, case: _InputCase) -> None:
    pod = await _start_input_case(bench, case)
    watching = await bench.runtime.attach(pod, "c")
    await read_until(watching, b"tick")
    await watching.close()  # does not count: this client sends no input
    stream = await bench.runtime.attach(pod, "c", has_stdin=True)
    await stream.write(b"first\n")
    await read_until(stream, b"first" if case.stdin else b"tick")
    await stream.close()
    await _check_stdin_afterwards(bench, pod, case)


async def _start_input_case(bench: RuntimeBench, case: _InputCase) -> Pod:
    pod = bench.pod(stdin=case.stdin, tty=case.tty, stdinOnce=case.stdin_once)
    await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod))
    await bench.start(pod, _ATTACHED, has_stdin=case.stdin, has_tty=case.tty, closes_stdin=case.stdin_once)
    return pod


async def _check_stdin_afterwards(bench: RuntimeBench, pod: Pod, case: _InputCase) -> None:
    """Check that the container keeps running, and that its stdin is closed, or open for another client, or that there
    is none."""

    def read_log() -> set[str]:
        return {line.rstrip("\r") for line in bench.log(pod)}

    assert bench.report(pod).state == RUNNING
    if case.is_closed or not (case.stdin or case.tty):
        await wait_until(lambda: "closed" in read_log(), f"stdin is not closed: {case}")
    elif case.stdin:
        stream = await bench.runtime.attach(pod, "c", has_stdin=True)
        await stream.write(b"second\n")
        await read_until(stream, b"second")
        await stream.close()
        assert "closed" not in read_log(), case
    assert ("first" in read_log()) == case.stdin, case


async def _ends_within(stream: ProcessStream, ticks: int) -> bool:
    """Whether the output ends before that number of further ticks."""
    count = 0
    while count < ticks:
        piece = await stream.read()
        if piece is None:
            return True
        count += piece[1].count(b"tick")
    return False


@CHECKS.add(Feature.EXEC)
async def end_of_input_of_an_exec(subject: Subject) -> None:
    """A command sees the end of its input, but not on a terminal, where it goes on."""
    see_end = "cat && exit 5"
    go_on = "exec 3<&0; cat <&3 >/dev/null & sleep 1; kill -0 $! && exit 6; exit 7"
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, FOREVER)
        for has_stdin, has_tty, script, code in (
            (True, False, see_end, 5),
            (False, False, see_end, 5),
            (True, True, go_on, 6),
            (False, True, go_on, 6),
        ):
            stream = await bench.runtime.exec(pod, "c", ["/bin/sh", "-c", script], has_stdin=has_stdin, has_tty=has_tty)
            await stream.write(b"text\n")
            await stream.close_input()
            assert (await collect_output(stream))[0] == code, (has_stdin, has_tty)


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
        await bench.start(pod, f"echo ready; exec busybox nc -ll -p {subject.port} -e busybox cat")
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
            reader, writer = await bench.runtime.connect(pod, bench.subject.port)
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
