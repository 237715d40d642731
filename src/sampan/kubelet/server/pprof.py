"""The /debug/pprof endpoint: profiles of this process as text.

It is kept although tools such as py-spy show more, because it is reachable through the API server's node proxy, with
RBAC and without a shell on the node (`kubectl get --raw /api/v1/nodes/NODE/proxy/debug/pprof/goroutine`). The paths are
those of Go; the content is text that people read: `profile` has folded stacks for flame graphs. `go tool pprof` needs
Go's binary format and cannot read it.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import sys
import threading
import traceback
from types import FrameType

from sampan.api.values.integers import parse_int64
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.kubelet.server.view import ErrorResponse

_MAX_S = 60
_SAMPLES_PER_S = 100
_PROFILES = {
    "cmdline": "the command line",
    "goroutine": "tasks",
    "heap": "objects",
    "profile": "CPU",
    "threadcreate": "threads",
}


async def profile(kind: str, request: HttpRequest) -> StreamResponse | None:
    if not kind:
        rows = "".join(
            f'<tr><td><a href="{name}">{name}</a><td>{description}\n' for name, description in _PROFILES.items()
        )
        return HttpResponse(
            text=f"<!doctype html>\n<title>/debug/pprof/</title>\n<table>\n{rows}</table>\n", content_type="text/html"
        )
    if kind == "profile":
        return HttpResponse(text=await _cpu_profile(_seconds(request)))
    dumps = {"cmdline": lambda: "\0".join(sys.argv), "goroutine": _tasks, "heap": _objects, "threadcreate": _threads}
    if kind not in dumps:
        raise ErrorResponse(404, "Unknown profile\n")
    return HttpResponse(text=dumps[kind]())


def _seconds(request: HttpRequest) -> int:
    text = request.query.get("seconds", "30")
    seconds = parse_int64(text)
    if seconds is None or seconds < 0:
        raise ErrorResponse(400, "seconds must be a number\n")
    return min(seconds, _MAX_S)


async def _cpu_profile(seconds: int) -> str:
    """Sample the stacks of the event loop's thread. Return one stack per line with its count, as flame graphs
    use them.
    """
    thread, over = threading.get_ident(), threading.Event()
    counts: collections.Counter[str] = collections.Counter()

    def sample() -> None:
        for _ in range(seconds * _SAMPLES_PER_S):
            if over.wait(1 / _SAMPLES_PER_S):
                return
            frame = sys._current_frames().get(thread)
            counts[_stack(frame)] += 1

    try:
        await asyncio.to_thread(sample)
    finally:
        over.set()
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def _stack(frame: FrameType | None) -> str:
    names = []
    while frame is not None:
        code = frame.f_code
        names.append(f"{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name}")
        frame = frame.f_back
    return ";".join(reversed(names))


def _tasks() -> str:
    lines = []
    for task in asyncio.all_tasks():
        stack = task.get_stack(limit=5)
        stack_text = " < ".join(f"{frame.f_code.co_name}:{frame.f_lineno}" for frame in stack)
        lines.append(f"{task.get_name()} {task.get_coro()!r} {stack_text}\n")
    return f"tasks: total {len(lines)}\n" + "".join(sorted(lines))


def _objects() -> str:
    kinds = collections.Counter(type(value).__qualname__ for value in gc.get_objects())
    return "".join(f"{count}\t{name}\n" for name, count in kinds.most_common(100))


def _threads() -> str:
    frames, texts = sys._current_frames(), []
    for thread in threading.enumerate():
        stack = frames.get(thread.ident or 0)
        texts.append(f"{thread.name}\n{''.join(traceback.format_stack(stack)) if stack else ''}\n")
    return "".join(texts)
