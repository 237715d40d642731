"""The last log lines of Sampan's components in this process, for the report of a failed test."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

_MAX_LINES = 40


class LogTail(logging.Handler):
    """Keeps the last lines that Sampan's components have logged in this process."""

    def __init__(self, lines: int = _MAX_LINES) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=lines)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def lines(self) -> Sequence[str]:
        return list(self._lines)

    def __enter__(self) -> LogTail:
        logging.getLogger("sampan").addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("sampan").removeHandler(self)
