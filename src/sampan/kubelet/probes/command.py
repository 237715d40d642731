"""Exec probes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sampan.api import durations
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.probes.results import Answer
from sampan.runtimes.contract import Runtime, RuntimeFailure
from sampan.runtimes.streams import collected

_MOST = 10 << 10


async def ask(runtime: Runtime, pod: Pod, container: str, command: Sequence[str], timeout_s: float) -> Answer:
    try:
        async with asyncio.timeout(timeout_s):
            stream = await runtime.exec(pod, container, command)
            code, out, err = await collected(stream, _MOST)
    except TimeoutError:
        limit = durations.format_duration(int(timeout_s * 1e9))
        return Answer(False, f'command timed out: "{" ".join(command)}" timed out after {limit}')
    except RuntimeFailure as failure:
        return Answer(False, failure.message, is_error=True)
    return Answer(code == 0, (out + err)[:_MOST].decode("utf-8", "replace"))
