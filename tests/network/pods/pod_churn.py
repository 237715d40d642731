"""Attach and detach pods without end, for a test that kills this process. Arguments: DIRECTORY SEED NAMESPACE..."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from sampan.host.clock import RealClock
from sampan.network.pods import BridgeConfig, BridgeNetwork
from sampan.runtimes.config import PortMapping

CIDRS = ["10.77.0.0/24", "fd77::/64"]


async def main(directory: Path, seed: str, namespaces: list[Path]) -> None:
    pick = random.Random(seed)
    async with BridgeNetwork(directory=directory, config=BridgeConfig(bridge="tst0"), clock=RealClock()) as network:
        network.use_pod_cidrs(CIDRS)
        print("started", flush=True)
        while True:
            await asyncio.gather(
                *(attach_or_detach(network, namespace, number, pick) for number, namespace in enumerate(namespaces))
            )


async def attach_or_detach(network: BridgeNetwork, namespace: Path, number: int, pick: random.Random) -> None:
    ports = [PortMapping(container_port=80, host_port=8000 + number)] if pick.random() < 0.5 else []
    if namespace.name in network.list_pod_uids() and pick.random() < 0.5:
        await network.detach(namespace.name)
    else:
        await network.attach(namespace.name, namespace, ports)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], [Path(argument) for argument in sys.argv[3:]]))
