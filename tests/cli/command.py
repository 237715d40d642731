"""`sampan` as people run it: in a process of its own, with a home of its own."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.cli.fork_server import ForkedProcess, ForkedServer, Surroundings
from tests.eventually import wait_until

TIMEOUT_S = 120


class Sampan:
    """`sampan("status")` returns the standard output of the command and fails the test if the command fails;
    `sampan.fails(…)` returns its standard error and fails the test if the command succeeds."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.prefix: list[str] = []
        """The words of a program that runs the command, such as `unshare`."""
        self.network: Path | None = None
        """The network namespace of the command, if it is not that of the tests."""
        self.dropped_capabilities: list[int] = []
        kept = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "XDG_DATA_HOME")}
        self.environment = kept | {"HOME": str(home), "SAMPAN_HOME": str(home / "clusters"), "TMPDIR": str(home)}

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"sampan {' '.join(words)}: code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def expect_failure(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode != 0, f"sampan {' '.join(words)} did not fail:\n{done.stdout}{done.stderr}"
        return done.stderr

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        if not self.prefix:
            return self._run_forked(words, stdin)
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "sampan", *words],
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def _run_forked(self, words: Sequence[str], stdin: str) -> "subprocess.CompletedProcess[str]":
        with ExitStack() as stack:
            streams = [stack.enter_context(TemporaryFile("w+")) for _ in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            code = ForkedProcess(words, self._make_surroundings(), streams).wait(TIMEOUT_S)
            for stream in streams:
                stream.seek(0)
            return subprocess.CompletedProcess(words, code, streams[1].read(), streams[2].read())

    def _make_surroundings(self) -> Surroundings:
        return Surroundings(self.environment, os.getcwd(), str(self.network or ""), self.dropped_capabilities)

    @contextmanager
    def running_command(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """Run a command in the foreground, and stop it by SIGTERM at the end of the block."""
        with subprocess.Popen(
            [sys.executable, "-m", "sampan", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(TIMEOUT_S)

    @contextmanager
    def running_forked_server(self, *words: str) -> Iterator[ForkedServer]:
        """As `running_command`, but without the CPU time of imports, for tests that are not about the start of the
        process."""
        process = ForkedServer(words, self._make_surroundings())
        with process.stdout:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(TIMEOUT_S)

    def read_running_file(self, name: str = "sampan") -> dict[str, Any]:
        note: dict[str, Any] = json.loads((self.directory(name) / "running.json").read_text())
        return note

    def directory(self, name: str = "sampan") -> Path:
        return self.home / "clusters" / name


def unwrap_lines(output: str) -> list[str]:
    """The lines of `sampan up`, each with its continuation lines."""
    return re.sub(r"\n {9}", " ", output).splitlines()


def get(url: str, *, token: str = "") -> tuple[int, str]:
    """Return the status code and the body of a GET request, without a check of the server's certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    trusted = context if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, context=trusted, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def wait_until_ready(url: str) -> None:
    """Wait until /readyz responds with ok."""
    wait_until(lambda: get(f"{url}/readyz") == (200, "ok"), timeout_s=TIMEOUT_S, ignore=(OSError,))
