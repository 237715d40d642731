"""TCP probes."""

from __future__ import annotations

import asyncio
import os

from sampan.kubelet.probes.results import Answer


async def ask(host: str, port: int, timeout_s: float) -> Answer:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Answer(False, f"dial tcp {shown}: i/o timeout")
    except OSError as error:
        return Answer(False, f"dial tcp {shown}: connect: {told(error)}")
    writer.transport.abort()
    return Answer(True)


def told(fault: OSError) -> str:
    """Return the error message of the operating system, whatever library wrapped the error."""
    return os.strerror(fault.errno).lower() if fault.errno else str(fault)
