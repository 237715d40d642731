"""Termination messages of containers, read from their file or from the end of their log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sampan.api.semantics.pods import find_container
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.container_config.builder import ContainerConfigBuilder
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport, Runtime
from sampan.runtimes.safe_paths import UnsafePath, open_file

MAX_MESSAGE_BYTES = 4096
_MAX_LOG_BYTES, _MAX_LOG_LINES = 2048, 80
FALLBACK = "FallbackToLogsOnError"


class TerminationMessages:
    """Adds termination messages to runtime reports. Each message is read once and cached."""

    def __init__(self, *, container_configs: ContainerConfigBuilder, runtime: Runtime) -> None:
        self._container_configs, self._runtime = container_configs, runtime
        self._known: dict[str, dict[str, str]] = {}
        """Termination messages by pod UID and container ID."""

    def extend_report(self, pod: Pod, report: PodReport) -> PodReport:
        if not any(container.state == contract.EXITED for container in (*report.containers, *report.before)):
            return report
        return replace(
            report,
            containers=[self._with_message(pod, container, previous=False) for container in report.containers],
            before=[self._with_message(pod, container, previous=True) for container in report.before],
        )

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def _with_message(self, pod: Pod, report: ContainerReport, *, previous: bool) -> ContainerReport:
        if report.state != contract.EXITED:
            return report
        messages = self._known.setdefault(pod.metadata.uid, {})
        if (message := messages.get(report.id)) is None:
            message = messages[report.id] = self._read(pod, report, previous=previous)
        return replace(report, message=message) if message else report

    def _read(self, pod: Pod, report: ContainerReport, *, previous: bool) -> str:
        container = find_container(pod.spec, report.name)
        if container is None or not container.terminationMessagePath:
            return report.message
        text = _read_start(self._container_configs.message_file(pod, report.name, report.attempt))
        if text:
            return text
        if report.exit_code != 0 and container.terminationMessagePolicy == FALLBACK:
            path = self._runtime.log_file(pod, report.name, previous=previous)
            return _read_log_end(path) if path is not None else report.message
        return report.message


def _read_start(path: Path) -> str:
    try:
        with open_file(path) as file:
            return file.read(MAX_MESSAGE_BYTES).decode("utf-8", "replace")
    except (OSError, UnsafePath):
        return ""


def _read_log_end(path: Path) -> str:
    """Return the last lines of a log in CRI format, without timestamp, stream and tag."""
    try:
        with open_file(path) as file:
            size, maximum = file.seek(0, 2), 4 * _MAX_LOG_BYTES + 100 * _MAX_LOG_LINES
            file.seek(max(size - maximum, 0))
            lines = file.read(maximum).splitlines()[-_MAX_LOG_LINES:]
    except (OSError, UnsafePath):
        return ""
    text = b"".join(_log_content(line) for line in lines)
    return text[-_MAX_LOG_BYTES:].decode("utf-8", "replace")


def _log_content(line: bytes) -> bytes:
    parts = line.split(b" ", 3)
    if len(parts) < 4:
        return b""
    return parts[3] if parts[2].startswith(b"P") else parts[3] + b"\n"
