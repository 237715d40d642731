"""The monitor, with real processes."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sampan.runtimes.contract import STDERR, STDOUT, collect_output
from sampan.runtimes.monitor.client import MonitorClient, MonitorError
from sampan.runtimes.monitor.logs import LogWriter
from sampan.runtimes.monitor.protocol import MonitorFrames, frame
from tests.eventually import eventually

LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)")


@asynccontextmanager
async def monitor(directory: Path) -> AsyncIterator[MonitorClient]:
    client = MonitorClient(directory / "m")
    await client.ensure()
    try:
        yield client
    finally:
        await client.quit(kill=True)


def run_with_monitor(directory: Path, work: Callable[[MonitorClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), monitor(directory) as client:
            await work(client)

    asyncio.run(main())


def shell(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


async def wait_for_exit(client: MonitorClient, id: str) -> dict[str, Any]:
    """Wait until a process has ended, and return its entry."""
    exited: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def on_exit(entry: dict[str, Any]) -> None:
        if entry["id"] == id and not exited.done():
            exited.set_result(entry)

    task = asyncio.create_task(client.follow(on_exit))
    try:
        return await exited
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def has_no_processes(client: MonitorClient) -> bool:
    return await client.list() == []


def lines(path: Path) -> list[tuple[bytes, bytes, bytes]]:
    rows = []
    for line in path.read_bytes().splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        rows.append((match[1], match[2], match[3]))
    return rows


def test_exit_code_of_a_process_that_exits_before_its_launcher_is_kept(tmp_path: Path) -> None:
    """The launcher reports the pid only after the process has exited."""
    number, gone = tmp_path / "pid", tmp_path / "gone"

    async def work(client: MonitorClient) -> None:
        orphan = f"(sh -c 'echo $$ > {number}; touch {gone}; exit 7' &)"
        launcher = f"{orphan}; while kill -0 $(cat {number}) 2>/dev/null || [ ! -e {gone} ]; do sleep 0.01; done"
        stream = await client.exec("early", shell(launcher), pid_file=str(number))
        code, _, _ = await collect_output(stream)
        assert code == 7

    run_with_monitor(tmp_path, work)


def test_output_and_exit_code_are_recorded(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        log, note = tmp_path / "logs/c/0.log", tmp_path / "exit"
        pid = await client.run("a", shell("echo one; echo two >&2; printf end; exit 3"), log=str(log), exit=str(note))
        entry = await wait_for_exit(client, "a")
        assert (entry["code"], entry["pid"]) == (3, pid)
        assert json.loads(note.read_text())["code"] == 3
        assert sorted(lines(log)) == [
            (b"stderr", b"F", b"two"),
            (b"stdout", b"F", b"one"),
            (b"stdout", b"P", b"end"),
        ]
        await client.forget("a")
        assert await client.list() == []

    run_with_monitor(tmp_path, work)


def test_exit_code_of_a_killed_process_contains_the_signal(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        await client.run("a", ["/bin/sleep", "60"])
        with pytest.raises(MonitorError, match="still running"):
            await client.forget("a")
        await client.kill("a", signal.SIGTERM)
        assert (await wait_for_exit(client, "a"))["code"] == 128 + 15

    run_with_monitor(tmp_path, work)


def test_another_client_can_attach_to_a_running_process(tmp_path: Path) -> None:
    """Processes outlive the client that started them."""

    async def work(client: MonitorClient) -> None:
        await client.run("a", shell("read line; echo got $line"), stdin=True, log=str(tmp_path / "log"))
        other = MonitorClient(tmp_path / "m")
        await other.ensure()
        assert [entry["id"] for entry in await other.list()] == ["a"]
        stream = await other.attach("a", has_stdin=True)
        await stream.write(b"hello\n")
        code, out, _ = await collect_output(stream)
        assert (code, out) == (0, b"got hello\n")
        assert lines(tmp_path / "log") == [(b"stdout", b"F", b"got hello")]

    run_with_monitor(tmp_path, work)


def test_exec_with_large_input_and_slowly_read_output(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        stream = await client.exec("x", shell("cat; echo problem >&2; exit 4"), stdin=True)
        data = os.urandom(30_000_000)
        sent = before = 0

        async def send() -> None:
            nonlocal sent
            for at in range(0, len(data), 100_000):
                await stream.write(data[at : at + 100_000])
                sent += 1
            await stream.close_input()

        def is_blocked() -> bool:
            nonlocal before
            previous, before = before, sent
            return 0 < sent == previous

        sending = asyncio.create_task(send())
        await eventually(is_blocked, poll_s=0.1)  # the output is read late, and is complete nevertheless
        code, out, err = await collect_output(stream, 50_000_000)
        await sending
        assert (code, err) == (4, b"problem\n")
        assert out == data
        assert await client.list() == []

    run_with_monitor(tmp_path, work)


def test_input_after_the_exit_of_an_exec_does_not_lose_its_output_and_exit_code(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        stream = await client.exec("x", shell("echo out; exit 5"), stdin=True)
        await eventually(lambda: has_no_processes(client))
        for _ in range(3):
            await stream.write(b"late input\n")
            await client.list()  # the monitor has received the input
        assert await collect_output(stream) == (5, b"out\n", b"")

    run_with_monitor(tmp_path, work)


def test_exec_does_not_succeed_if_the_monitor_is_killed(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        stream = await client.exec("x", shell("echo $PPID; read line"), stdin=True)
        piece = await stream.read()
        assert piece is not None
        os.kill(int(piece[1]), signal.SIGKILL)
        code, _, _ = await collect_output(stream)
        assert code == 137

    run_with_monitor(tmp_path, work)


def test_exec_with_a_terminal(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        script = "test -t 0 && test -t 1 && read x; stty size; echo got $x"
        stream = await client.exec("x", shell(script), stdin=True, tty=True)
        await stream.resize(91, 17)
        await stream.write(b"hello\n")
        code, out, err = await collect_output(stream)
        assert (code, err) == (0, b"")
        assert b"17 91" in out
        assert b"got hello" in out

    run_with_monitor(tmp_path, work)


def test_closing_an_exec_stream_ends_its_process(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        stream = await client.exec("x", shell("echo $$; exec sleep 60"))
        piece = await stream.read()
        assert piece is not None
        pid = int(piece[1])
        await stream.close()
        await eventually(lambda: not os.path.exists(f"/proc/{pid}"))
        assert await client.list() == []

    run_with_monitor(tmp_path, work)


def test_exec_that_is_abandoned_before_its_launcher_exits_is_killed(tmp_path: Path) -> None:
    pid_file, draft, may_exit = tmp_path / "pid", tmp_path / "draft", tmp_path / "may-exit"

    async def work(client: MonitorClient) -> None:
        launcher = f"sleep 600 & echo $! > {draft}; until [ -e {may_exit} ]; do sleep 0.01; done; mv {draft} {pid_file}"
        starting = asyncio.create_task(client.exec("x", shell(launcher), pid_file=str(pid_file)))
        await eventually(draft.exists)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await client.list()  # the monitor has seen the end of the connection
        may_exit.touch()
        await eventually(lambda: has_no_processes(client))

    run_with_monitor(tmp_path, work)


def test_process_left_by_a_launcher_is_monitored(tmp_path: Path) -> None:
    """A process whose launcher has exited becomes a child of the monitor."""

    async def work(client: MonitorClient) -> None:
        pid_file = tmp_path / "pid"
        script = f"(echo started; sleep 0.2; exit 7) & echo $! > {pid_file}"
        pid = await client.run("a", shell(script), pid_file=str(pid_file), log=str(tmp_path / "log"))
        assert pid == int(pid_file.read_text())
        assert (await wait_for_exit(client, "a"))["code"] == 7
        with pytest.raises(MonitorError, match="exited with code 5"):
            await client.run("b", shell("exit 5"), pid_file=str(pid_file))
        assert [entry["id"] for entry in await client.list()] == ["a"]

    run_with_monitor(tmp_path, work)


def test_missing_programs_and_duplicate_ids_raise_monitor_error(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        with pytest.raises(MonitorError, match="No such file"):
            await client.run("a", ["/no/such/program"])
        with pytest.raises(MonitorError, match="there is no process"):
            await client.kill("a", 9)
        with pytest.raises(MonitorError, match="No such file"):
            await client.exec("b", ["/no/such/program"])
        await client.run("c", ["/bin/sleep", "60"])
        with pytest.raises(MonitorError, match="already"):
            await client.run("c", ["/bin/sleep", "60"])

    run_with_monitor(tmp_path, work)


def test_reopen_log_after_rotation(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        log = tmp_path / "log"
        await client.run("a", shell("echo one; read x; echo two"), stdin=True, log=str(log))
        stream = await client.attach("a", has_stdin=True)
        await eventually(lambda: log.read_bytes().endswith(b"one\n"))
        log.rename(tmp_path / "log.1")
        await client.reopen_log("a")
        await stream.write(b"\n")
        await collect_output(stream)
        assert [text for _, _, text in lines(tmp_path / "log.1")] == [b"one"]
        assert [text for _, _, text in lines(log)] == [b"two"]

    run_with_monitor(tmp_path, work)


def test_invalid_frames_do_not_affect_the_monitor(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        for junk in (b"\xff" * 100, frame(0, b"{"), frame(0, b"[]"), frame(0, b'{"do":"x"}'), frame(3, b"x"), b"\0"):
            _, writer = await client._connect()
            writer.write(junk)
            writer.close()
        assert await client.list() == []

    run_with_monitor(tmp_path, work)


def test_second_monitor_of_a_directory_exits(tmp_path: Path) -> None:
    async def work(client: MonitorClient) -> None:
        await client.run("a", ["/bin/sleep", "60"])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sampan.runtimes.monitor", str(tmp_path / "m")
        )
        assert await process.wait() == 0
        assert [entry["id"] for entry in await client.list()] == ["a"]
        assert ((tmp_path / "m").stat().st_mode & 0o077, (tmp_path / "m/monitor.sock").stat().st_mode & 0o077) == (0, 0)

    run_with_monitor(tmp_path, work)


def test_long_log_lines_are_split(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path / "log"))
    writer.write(STDOUT, b"x" * 40_000)
    writer.write(STDOUT, b"\nshort\n")
    writer.write(STDERR, b"part")
    writer.finish(STDERR)
    rows = lines(tmp_path / "log")
    assert [(name, tag, len(text)) for name, tag, text in rows] == [
        (b"stdout", b"P", 16384),
        (b"stdout", b"P", 16384),
        (b"stdout", b"F", 7232),
        (b"stdout", b"F", 5),
        (b"stderr", b"P", 4),
    ]


def test_frames_are_parsed_byte_by_byte() -> None:
    frames, data = MonitorFrames(), frame(1, b"one") + frame(2, b"") + frame(3, b"x" * 1000)
    received = [frame for at in range(len(data)) for frame in frames.feed(data[at : at + 1])]
    assert received == [(1, b"one"), (2, b""), (3, b"x" * 1000)]
