"""A client in a network namespace and a server that replies to it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

from sampan.host.linux.network_namespace import NetworkNamespace


async def talk(namespace: NetworkNamespace, address: str, number: int, kind: socket.SocketKind) -> bytes:
    """Return what a server sends to a client in a namespace; empty if the connection is reset or refused."""
    loop = asyncio.get_running_loop()
    with closing(namespace.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)) as client:
        client.setblocking(False)
        try:
            async with asyncio.timeout(10):
                await loop.sock_connect(client, (address, number))
                await loop.sock_sendall(client, b"?")
                return await loop.sock_recv(client, 100)
        except ConnectionError:
            return b""


async def reply(server: socket.socket, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    server.setblocking(False)
    if server.type == socket.SOCK_STREAM:
        client, _ = await loop.sock_accept(server)
        with closing(client):
            await loop.sock_recv(client, 10)
            await loop.sock_sendall(client, data)
    else:
        _, client_address = await loop.sock_recvfrom(server, 10)
        await loop.sock_sendto(server, data, client_address)
