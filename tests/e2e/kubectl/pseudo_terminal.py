"""A command on a pseudo-terminal, driven as a person would: wait for a text, then type."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

PATIENCE_S = 60.0


class PseudoTerminal:
    """`with PseudoTerminal(words, environment) as terminal:` runs a command; it is killed at the end of the block."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], *, rows: int = 24, columns: int = 80
    ) -> None:
        self._words, self._environment = list(words), dict(environment)
        self._size = (rows, columns)
        self.output = ""
        self._read = 0

    def __enter__(self) -> PseudoTerminal:
        self._pid, self._file = pty.fork()
        if self._pid == 0:
            # Other threads may be starting programs; an inherited end of their pipes would keep them waiting.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.execvpe(self._words[0], self._words, self._environment)
        self.resize(*self._size)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._file)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the text is printed after the text of the previous wait."""
        deadline = time.monotonic() + PATIENCE_S
        while (at := self.output.find(text, self._read)) < 0:
            assert self._receive(deadline), f"the command ended without {text!r}: {self.output!r}"
        self._read = at + len(text)

    def wait(self) -> int:
        """Return the exit code of the command, after its output has been read."""
        deadline = time.monotonic() + PATIENCE_S
        while self._receive(deadline):
            pass
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def _receive(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._file], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing was printed for a minute after {self.output!r}"
        try:
            data = os.read(self._file, 1 << 16)
        except OSError:  # Linux reports that the other side is closed
            return False
        self.output += data.decode("utf-8", "replace")
        return bool(data)
