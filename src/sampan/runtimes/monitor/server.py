"""The event loop of the monitor, which serves the socket, the pipes of processes, and SIGCHLD."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from sampan.runtimes.monitor import protocol
from sampan.runtimes.monitor.process import MonitoredProcess, StartFailed
from sampan.runtimes.monitor.protocol import MonitorFrames

_PR_SET_CHILD_SUBREAPER = 36
_MAX_UNSENT_BYTES = 8 << 20
"""The unsent bytes after which a client that does not read is disconnected, so that it does not block a container."""
_PAUSE_THRESHOLD_BYTES = 1 << 20
"""The unsent bytes above which the output of a process that runs only for this client is not read."""


class ConnectedClient:
    """A connection, which carries requests, or the streams of one process after `attach`."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.frames = MonitorFrames()
        self.unsent = bytearray()
        self.attached: MonitoredProcess | None = None
        self.kills_at_end = False
        """Whether the process was started for this connection and is killed with it."""
        self.sends_input = False
        """Whether the client sends input to a process that has a stdin."""
        self.listener: Any = None
        self.wants_events = False
        self.is_ending = False
        """Whether the output for the client ends once everything has been sent. Its further input is discarded."""
        self.is_paused = False
        """Whether reading from the client is paused, because its process does not consume its input."""


_IDLE_S = 60.0
"""The time without processes and clients after which the monitor exits: no kubelet would need it again."""


class Monitor:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._processes: dict[str, MonitoredProcess] = {}
        self._clients: dict[int, ConnectedClient] = {}
        self._waiting_clients: dict[str, ConnectedClient] = {}
        """Clients that wait for a launcher to exit, by process id."""
        self._early: dict[int, int] = {}
        """Exit codes by pid of processes that exited before their launcher did. They are kept because it is not known
        yet to which container such a pid belongs."""
        self._is_over = False
        self._wake, self._wakes = os.pipe()
        self._operations: dict[str, Callable[[ConnectedClient, dict[str, Any]], dict[str, Any] | None]] = {
            "run": self._run,
            "kill": self._kill,
            "list": lambda client, request: {"processes": [process.describe() for process in self._processes.values()]},
            "forget": self._forget,
            "attach": self._attach,
            "reopen": self._reopen,
            "events": self._events,
            "quit": self._quit,
        }

    def run(self) -> None:
        """Serve until a client requests `quit`, or until there have been no processes and clients for a while."""
        become_subreaper()
        os.set_blocking(self._wakes, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, index: None)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, self._reap)
        while not self._is_over:
            ready = self._selector.select(_IDLE_S)
            if not ready and not self._clients and not self._processes:
                return
            for key, events in ready:
                try:
                    key.data(key.fileobj, events)
                except Exception:  # an error with one process must not affect the other ones
                    traceback.print_exc()

    # -- connections -------------------------------------------------------------------------------------------------

    def _accept(self, file: Any, events: int) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listening.accept()
            connection.setblocking(False)
            self._clients[connection.fileno()] = ConnectedClient(connection)
            self._selector.register(connection, selectors.EVENT_READ, self._on_client)

    def _on_client(self, connection: Any, events: int) -> None:
        client = self._clients.get(connection.fileno())
        if client is None:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(client)
        if events & selectors.EVENT_READ and connection.fileno() in self._clients:
            self._read(client)

    def _read(self, client: ConnectedClient) -> None:
        try:
            data = client.connection.recv(256 << 10)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._drop(client)
        try:
            for kind, content in client.frames.feed(data):
                self._on_frame(client, kind, content)
        except (protocol.BadMonitorFrame, ValueError, KeyError, TypeError):
            self._drop(client)

    def _on_frame(self, client: ConnectedClient, kind: int, content: bytes) -> None:
        if client.is_ending:
            return
        if kind == protocol.JSON:
            request = json.loads(content)
            try:
                response = self._operations[request["do"]](client, request)
            except StartFailed as error:
                response = {"error": str(error)}
            if response is not None:
                self._send(client, protocol.message(response))
            return
        process = client.attached
        if process is None:
            raise protocol.BadMonitorFrame("nothing is attached")
        if kind == protocol.STDIN:
            if client.sends_input:
                process.write_input(content)
                client.is_paused = process.is_full
        elif kind == protocol.END_OF_STDIN:
            if client.sends_input:
                self._end_input(client, process)
        elif kind == protocol.RESIZE:
            process.resize(*json.loads(content))
        self._watch(process)
        self._watch_client(client)

    def _end_input(self, client: ConnectedClient, process: MonitoredProcess) -> None:
        """Handle the end of a client's input as containerd does. A container that keeps its stdin open for the next
        client is detached from this one."""
        if _ends_with_input_of(client, process):
            process.end_input()
        elif not client.kills_at_end:
            process.listeners.remove(client.listener)
            self._send_exit_code(client, process)
        client.sends_input = False

    def _watch_client(self, client: ConnectedClient) -> None:
        """Select the events that matter for the client now, and unregister it if there are none."""
        if client.connection.fileno() not in self._clients:
            return
        events = (0 if client.is_paused else selectors.EVENT_READ) | (selectors.EVENT_WRITE if client.unsent else 0)
        is_known = client.connection in self._selector.get_map()
        if events and is_known:
            self._selector.modify(client.connection, events, self._on_client)
        elif events:
            self._selector.register(client.connection, events, self._on_client)
        elif is_known:
            self._selector.unregister(client.connection)

    def _send(self, client: ConnectedClient, data: bytes) -> None:
        client.unsent += data
        if len(client.unsent) > _MAX_UNSENT_BYTES:
            return self._drop(client)
        self._flush(client)

    def _flush(self, client: ConnectedClient) -> None:
        try:
            while client.unsent:
                done = client.connection.send(client.unsent)
                del client.unsent[:done]
        except BlockingIOError:
            pass
        except OSError:
            return self._drop(client)
        if client.is_ending and not client.unsent:
            return self._finish(client)
        self._watch_client(client)
        if client.attached is not None and client.kills_at_end:
            self._watch(client.attached)

    def _finish(self, client: ConnectedClient) -> None:
        """End the output for the client, which then closes the connection. If the monitor closed it while the client
        sends input, the client would lose output and the exit code that it has not read yet."""
        client.is_paused = False
        with contextlib.suppress(OSError):
            client.connection.shutdown(socket.SHUT_WR)
        self._detach(client)
        self._watch_client(client)

    def _drop(self, client: ConnectedClient) -> None:
        if self._clients.pop(client.connection.fileno(), None) is None:
            return
        if client.connection in self._selector.get_map():
            self._selector.unregister(client.connection)
        client.connection.close()
        self._detach(client)

    def _detach(self, client: ConnectedClient) -> None:
        """Detach the client from its process, which is killed if it was started for this client."""
        process, client.attached = client.attached, None
        if process is None:
            return
        if client.listener in process.listeners:
            process.listeners.remove(client.listener)
        if client.kills_at_end:
            self._signal(process, signal.SIGKILL)
            if process.code is not None:
                self._remove(process)
        elif client.sends_input and _ends_with_input_of(client, process):
            process.end_input()
            self._watch(process)

    # -- operations --------------------------------------------------------------------------------------------------

    def _run(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any] | None:
        """Start a process. With `attach` the connection carries its streams from then on, and the process is killed
        when the connection is closed."""
        if request["id"] in self._processes:
            raise StartFailed(f"process {request['id']!r} already exists")
        process = MonitoredProcess(request)
        process.closing = self._unwatch
        process.start()
        self._processes[process.id] = process
        if request.get("attach"):
            client.kills_at_end = True
            self._attach_client(client, process, request)
        self._watch(process)
        if process.launched is not None:
            self._waiting_clients[process.id] = client
            return None
        return {"pid": process.pid}

    def _kill(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any]:
        process = self._find(request)
        self._signal(process, int(request["signal"]), bool(request.get("group")))
        return {}

    def _forget(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any]:
        process = self._processes.get(request["id"])
        if process is not None:
            if process.code is None and process.pid:
                raise StartFailed("it is still running")
            self._remove(process)
        return {}

    def _attach(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any]:
        process = self._find(request)
        self._attach_client(client, process, request)
        return {"pid": process.pid}

    def _reopen(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any]:
        self._find(request).reopen_log()
        return {}

    def _events(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any]:
        client.wants_events = True
        return {"processes": [process.describe() for process in self._processes.values()]}

    def _quit(self, client: ConnectedClient, request: dict[str, Any]) -> dict[str, Any]:
        """Stop the monitor. This is rejected while processes run, unless the request asks for killing them."""
        running = [process for process in self._processes.values() if process.code is None]
        if running and not request.get("kill"):
            raise StartFailed(f"{len(running)} processes are running")
        for process in running:
            self._signal(process, signal.SIGKILL, True)
        self._is_over = True
        with contextlib.suppress(OSError):
            client.connection.send(protocol.message({}))
        return {}

    def _find(self, request: dict[str, Any]) -> MonitoredProcess:
        process = self._processes.get(request["id"])
        if process is None:
            raise StartFailed(f"there is no process {request['id']!r}")
        return process

    def _attach_client(self, client: ConnectedClient, process: MonitoredProcess, request: dict[str, Any]) -> None:
        def listen(channel: int, data: bytes) -> None:
            if data:
                self._send(client, protocol.frame(channel, data))
            else:
                self._send_exit_code(client, process)

        client.attached, client.listener = process, listen
        client.sends_input = bool(request.get("stdin") and process.request.get("stdin"))
        process.listeners.append(listen)
        if not process.outputs and process.code is not None:
            self._send_exit_code(client, process)

    def _send_exit_code(self, client: ConnectedClient, process: MonitoredProcess) -> None:
        """Send the exit code after the end of the output. A client that has attached to a
        container gets the code 0: the kubelet learns the exit code of the container from an event."""
        if process.code is None and client.kills_at_end:
            return  # _on_process_exit() sends the code
        client.is_ending = True
        self._send(client, protocol.message({"code": process.code if client.kills_at_end else 0}))

    # -- processes ---------------------------------------------------------------------------------------------------

    def _watch(self, process: MonitoredProcess) -> None:
        """Select the events that matter for the process now: readable output, unless its client is slow, and
        writability if input is buffered."""
        is_slow = any(client.attached is process and _is_slow(client) for client in self._clients.values())
        desired = dict.fromkeys(process.outputs, 0 if is_slow else selectors.EVENT_READ)
        if process.wants_to_write and process.input is not None:
            desired[process.input] = desired.get(process.input, 0) | selectors.EVENT_WRITE
        elif process.input is not None:
            desired.setdefault(process.input, 0)
        registered = self._selector.get_map()
        for file, events in desired.items():
            if not events:
                self._unwatch(file)
            elif file not in registered:
                self._selector.register(file, events, partial(self._on_process, process))
            elif registered[file].events != events:
                self._selector.modify(file, events, registered[file].data)

    def _unwatch(self, file: int) -> None:
        if file in self._selector.get_map():
            self._selector.unregister(file)

    def _on_process(self, process: MonitoredProcess, file: int, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            process.flush()
            self._resume_clients(process)
        if events & selectors.EVENT_READ and file in process.outputs:
            process.read(file)
        self._watch(process)

    def _resume_clients(self, process: MonitoredProcess) -> None:
        if not process.is_full:
            for client in [
                candidate
                for candidate in self._clients.values()
                if candidate.attached is process and candidate.is_paused
            ]:
                client.is_paused = False
                self._watch_client(client)

    def _signal(self, process: MonitoredProcess, number: int, group: bool = False) -> None:
        if process.pid and process.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                (os.killpg if group else os.kill)(process.pid, number)

    def _reap(self, file: Any, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._on_exit(pid, os.waitstatus_to_exitcode(status))

    def _on_exit(self, pid: int, code: int) -> None:
        code = 128 - code if code < 0 else code
        for process in list(self._processes.values()):
            if process.launched == pid:
                return self._on_launched(process, code)
            if process.pid == pid and process.code is None:
                return self._on_process_exit(process, code)
        if any(process.launched is not None for process in self._processes.values()):
            self._early[pid] = code

    def _on_launched(self, process: MonitoredProcess, code: int) -> None:
        client = self._waiting_clients.pop(process.id, None)
        try:
            process.on_launcher_exit(code)
            self._watch(process)
            response: dict[str, Any] = {"pid": process.pid}
        except StartFailed as error:
            self._remove(process)
            response = {"error": str(error)}
        if client is not None:
            self._send(client, protocol.message(response))
        if "error" not in response and process.pid in self._early:
            self._on_process_exit(process, self._early[process.pid])
        elif client is not None and client.kills_at_end and client.attached is None:
            self._signal(process, signal.SIGKILL)  # the client was disconnected before the pid was known
        if all(other.launched is None for other in self._processes.values()):
            self._early.clear()

    def _on_process_exit(self, process: MonitoredProcess, code: int) -> None:
        for file in list(process.outputs):
            while file in process.outputs and _has_more(file):
                process.read(file)
        process.record_exit(code)
        message = protocol.message({"ended": process.describe()})
        for client in list(self._clients.values()):
            if client.wants_events:
                self._send(client, message)
            if client.attached is process and (client.kills_at_end or not process.outputs) and not client.is_ending:
                self._send_exit_code(client, process)
        if process.request.get("attach"):
            self._remove(process)

    def _remove(self, process: MonitoredProcess) -> None:
        process.close()
        self._processes.pop(process.id, None)


def _ends_with_input_of(client: ConnectedClient, process: MonitoredProcess) -> bool:
    """Whether the process sees the end of this client's input."""
    is_only_client = client.kills_at_end or process.request.get("stdin_once")
    return bool(is_only_client) and not process.request.get("tty")


def _is_slow(client: ConnectedClient) -> bool:
    return client.kills_at_end and len(client.unsent) > _PAUSE_THRESHOLD_BYTES


def _has_more(file: int) -> bool:
    with selectors.DefaultSelector() as look:
        look.register(file, selectors.EVENT_READ)
        return bool(look.select(0))


def become_subreaper() -> None:
    """Make this process the parent of orphaned descendants, so that it can reap containers whose launcher has
    exited."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a sub-reaper")
