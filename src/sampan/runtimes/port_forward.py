"""Connections to a port on the loopback address of a pod, for port forwarding."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from sampan.machinery.network_namespace import in_network
from sampan.runtimes.contract import RuntimeFailure

_PATIENCE_S = 10.0


async def connected(port: int, network: Path | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect in the network namespace at that path, or in the node's if it is None."""

    def connect() -> socket.socket:
        return socket.create_connection(("localhost", port), timeout=_PATIENCE_S)

    try:
        if network is None:
            return await asyncio.open_connection("localhost", port)
        link = await asyncio.to_thread(in_network, network, connect)
    except OSError as error:
        cause = error.strerror or str(error)
        text = f"failed to connect to localhost:{port} inside the pod: {cause}"
        raise RuntimeFailure("PortForward", text) from None
    try:
        link.setblocking(False)
        return await asyncio.open_connection(sock=link)
    except BaseException:
        link.close()
        raise
