"""One child process of the monitor: its output, input, terminal and exit."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import Any

from sampan.host.durable_files import write_durably
from sampan.runtimes.monitor.logs import LogWriter
from sampan.runtimes.monitor.protocol import STDERR, STDOUT

_READ = 64 << 10
_MAX_BUFFERED_INPUT_BYTES = 1 << 20
"""The buffered input in bytes above which the monitor stops reading from clients that send input."""

Listener = Callable[[int, bytes], None]
"""A callback for output: the channel and the data. Empty data means the end of all output."""


class StartFailed(Exception):
    """The process cannot be started; the message gives the reason."""


class MonitoredProcess:
    """A process that is started from a request with these fields:

    - `argv`, `env`, `cwd`: the command; `stdin`, `tty`: whether it has a stdin, a terminal;
    - `stdin_once`: whether stdin is closed after the first client that sent input;
    - `log`: the path of the log file; `exit`: the path of the file that records the exit;
    - `pid_file`: `argv` is a launcher, which writes the pid of the actual process to this file before it exits;
    - `console`: the path of a socket on which the launcher passes the terminal that it created.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self.id = str(request["id"])
        self.request = request
        self.pid = 0
        self.code: int | None = None
        self.finished_at = 0.0
        self.launched: int | None = None
        """The pid of the launcher while it runs."""
        self.listeners: list[Listener] = []
        self.closing: Callable[[int], None] = lambda file: None
        """A callback for each file descriptor before it is closed."""
        self._log = LogWriter(str(request["log"])) if request.get("log") else None
        self.outputs: dict[int, int] = {}
        """The channel of each file descriptor that is read."""
        self.input: int | None = None
        self._waiting = bytearray()
        self._ends_input = False
        self._has_tty = bool(request.get("tty"))
        self._console: socket.socket | None = None

    # -- start -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        request = self.request
        descriptors: list[int] = []
        """Descriptors that the child inherits and the monitor closes."""
        try:
            stdio = self._stdio(descriptors)
            child = subprocess.Popen(
                [str(word) for word in request["argv"]],
                env=request.get("env"),
                cwd=request.get("cwd"),
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                start_new_session=True,
                close_fds=True,
                preexec_fn=_set_controlling_terminal if self._has_tty and not request.get("console") else None,
                user=request.get("user"),
                group=request.get("group"),
                extra_groups=request.get("groups"),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.close()
            raise StartFailed(str(error)) from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        child.returncode = 0  # the event loop reaps the child, not this object
        if request.get("pid_file"):
            self.launched = child.pid
        else:
            self.pid = child.pid

    def _stdio(self, descriptors: list[int]) -> tuple[int, int, int]:
        if self._has_tty and self.request.get("console"):
            self._listen_for_console(str(self.request["console"]))
            return (subprocess.DEVNULL,) * 3
        if self._has_tty:
            master, slave = pty.openpty()
            descriptors.append(slave)
            self.outputs[master], self.input = STDOUT, master
            os.set_blocking(master, False)
            return slave, slave, slave
        out, err = self._output(STDOUT, descriptors), self._output(STDERR, descriptors)
        if not self.request.get("stdin"):
            return subprocess.DEVNULL, out, err
        read, self.input = os.pipe()
        os.set_blocking(self.input, False)
        descriptors.append(read)
        return read, out, err

    def _output(self, channel: int, descriptors: list[int]) -> int:
        read, write = os.pipe()
        os.set_blocking(read, False)
        self.outputs[read] = channel
        descriptors.append(write)
        return write

    def _listen_for_console(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._console = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._console.bind(path)
        os.chmod(path, 0o600)
        self._console.listen(1)
        self._console.settimeout(10)

    def on_launcher_exit(self, code: int) -> None:
        """Read the pid of the launched process. Raise StartFailed if the launcher failed or wrote no pid."""
        self.launched = None
        if code:
            raise StartFailed(f"the OCI runtime exited with code {code}")
        try:
            with open(str(self.request["pid_file"])) as file:
                self.pid = int(file.read().strip())
        except (OSError, ValueError) as error:
            raise StartFailed(f"the OCI runtime wrote no PID file: {error}") from None
        if self._console is not None:
            self._take_console()

    def _take_console(self) -> None:
        assert self._console is not None
        try:
            connection, _ = self._console.accept()
            with connection:
                _, ancillary, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(4))
        except OSError as error:
            raise StartFailed(f"the OCI runtime sent no terminal: {error}") from None
        finally:
            self._console.close()
            os.unlink(str(self.request["console"]))
            self._console = None
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if not descriptors:
            raise StartFailed("the OCI runtime sent no terminal")
        self.input = descriptors[0]
        self.outputs[descriptors[0]] = STDOUT
        os.set_blocking(descriptors[0], False)

    # -- output and input --------------------------------------------------------------------------------------------

    def read(self, file: int) -> bool:
        """Read available output. Return False at the end of the output."""
        channel = self.outputs[file]
        try:
            data = os.read(file, _READ)
        except BlockingIOError:
            return True
        except OSError:  # reading from a terminal whose last user has exited fails with EIO
            data = b""
        if data:
            if self._log is not None:
                self._log.write(channel, data)
            self._send_output(channel, data)
            return True
        self._end_output(file, channel)
        return False

    def _end_output(self, file: int, channel: int) -> None:
        del self.outputs[file]
        if self._log is not None:
            self._log.finish(channel)
        if file == self.input:
            self.input = None
        self._close(file)
        if not self.outputs:
            self._send_output(0, b"")

    def _send_output(self, channel: int, data: bytes) -> None:
        for listener in list(self.listeners):
            listener(channel, data)

    def write_input(self, data: bytes) -> None:
        """Send data to stdin, if the process has one."""
        if self.input is None:
            return
        self._waiting += data
        self.flush()

    def end_input(self) -> None:
        """Close stdin, which is not a terminal, after everything in it has been written."""
        self._ends_input = True
        self.flush()

    def flush(self) -> None:
        while self.input is not None and self._waiting:
            try:
                done = os.write(self.input, self._waiting[:_READ])
            except BlockingIOError:
                return
            except OSError:
                self._waiting.clear()
                break
            del self._waiting[:done]
        if self._ends_input and not self._waiting and self.input is not None:
            self._close(self.input)
            self.input = None

    def _close(self, file: int) -> None:
        self.closing(file)
        with contextlib.suppress(OSError):
            os.close(file)

    @property
    def wants_to_write(self) -> bool:
        return self.input is not None and bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the process has so much buffered input that clients must be paused."""
        return self.input is not None and len(self._waiting) > _MAX_BUFFERED_INPUT_BYTES

    def resize(self, width: int, height: int) -> None:
        if self._has_tty and self.input is not None:
            size = struct.pack("HHHH", height, width, 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.input, termios.TIOCSWINSZ, size)

    def reopen_log(self) -> None:
        if self._log is not None:
            self._log.reopen()

    # -- exit --------------------------------------------------------------------------------------------------------

    def record_exit(self, code: int) -> None:
        self.code, self.finished_at = code, time.time()
        path = self.request.get("exit")
        if path:
            note = json.dumps({"code": code, "finished_at": self.finished_at, "pid": self.pid})
            with contextlib.suppress(OSError):
                # The kubelet syncs its record of the exit. Waiting for the disk here would block all containers.
                write_durably(str(path), note.encode(), mode=0o600, is_synced=False)

    def close(self) -> None:
        """Release all descriptors. The process itself is not killed."""
        for file in list(self.outputs):
            self.read(file)
        for file in {*self.outputs, *([self.input] if self.input is not None else ())}:
            self._close(file)
        self.outputs, self.input = {}, None
        if self._console is not None:
            self._console.close()
        if self._log is not None:
            for channel in (STDOUT, STDERR):
                self._log.finish(channel)
            self._log.close_file()

    def describe(self) -> dict[str, Any]:
        return {"id": self.id, "pid": self.pid, "code": self.code, "finished_at": self.finished_at}


def _set_controlling_terminal() -> None:
    """Make stdin the controlling terminal. It runs in the child process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
