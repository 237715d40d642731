"""Logs of a container that writes without end, kept small, and followed all the while."""

import asyncio
from pathlib import Path

from sampan.kubelet.logs.lines import LogOptions
from sampan.kubelet.logs.reader import read
from sampan.kubelet.logs.rotation import LogRotator, RotationPolicy
from sampan.machinery.clock import RealClock
from tests.kubelet.server.process_node import a_pod, plain_node

_WRITER = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); [ $((i % 300)) = 0 ] && sleep 0.1; done"


async def test_nothing_is_lost_to_who_follows(tmp_path: Path) -> None:
    async with asyncio.timeout(60), plain_node(tmp_path) as node:
        pod = await node.run(a_pod("sh", "-c", f"{_WRITER}; sleep 1000"))
        runtime = node.runtime
        path = runtime.log_file(pod, "main")
        assert path is not None
        keeper = LogRotator(
            runtime=runtime,
            running=lambda: [(pod, "main")],
            clock=RealClock(),
            policy=RotationPolicy(max_bytes=10_000, files=3),
        )
        text = b""
        async for piece in read(path, LogOptions(is_following=True), is_running=lambda: True):
            text += piece
            await keeper.check()
            if text.endswith(b"line 2999\n"):
                break
        assert text == b"".join(b"line %d\n" % number for number in range(3000))
        names = _names(path)
        assert names[0] == path.name
        assert 1 < len(names) <= 3


def _names(path: Path) -> list[str]:
    return sorted(path.name for path in path.parent.iterdir())
