"""Operators as programs of their own: a process whose log is shown if the test fails, and certificates for webhooks."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca

_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Operator:
    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End the process without any chance to release its lease."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running_operator(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Operator]:
    """Run an operator for the duration of a block; then stop it by SIGTERM, and print its log."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"], "HOME": str(log.parent), **environment},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    operator = Operator(process, log)
    try:
        yield operator
    finally:
        _stop(process)
        print(f"{log.name}:\n{operator.text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def write_webhook_certificates(directory: Path, *names: str) -> bytes:
    """Write tls.crt, tls.key and ca.crt for a webhook server on the loopback address and under some DNS names; return
    the CA certificate."""
    now = time.time()
    ca = make_ca("operator webhooks", now=now)
    request = SigningRequest(
        common_name="operator", dns_names=["localhost", *names], addresses=["127.0.0.1"], is_server=True
    )
    pair = issue(ca, request, now=now)
    for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", ca.certificate)):
        (directory / name).write_bytes(content)
    return ca.certificate
