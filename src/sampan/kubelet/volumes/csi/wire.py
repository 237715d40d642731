"""Messages and calls of the CSI node service, with errors as VolumeFault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.kubelet.volumes.contract import VolumeFault

if TYPE_CHECKING:
    from sampan.machinery.proto import Schema


class RpcFault(VolumeFault):
    """The error of the driver; `code` is the name of the gRPC status code."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


def csi() -> Schema:
    return calls.read(Path(__file__).parent / "csi.proto")


async def call(socket: str, name: str, request: Message) -> Message:
    """Call the node service. Raise RpcFault on errors."""
    try:
        return await calls.call(socket, csi(), "Node", name, request)
    except calls.RpcFault as error:
        raise RpcFault(str(error), error.code) from None


__all__ = ["Message", "RpcFault", "call", "csi"]
