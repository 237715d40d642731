"""Capabilities of etcd by version."""

import re
from typing import Any

from sampan.storage.etcd.client import Client
from sampan.storage.etcd.endpoints import Endpoint
from sampan.storage.etcd.faults import Fault

ORDERED_PROGRESS = ((3, 4, 25), (3, 5, 8))
"""The first patch of each minor version in which progress notifications do not overtake events."""


async def sends_progress_in_order(client: Client, endpoint: Endpoint) -> bool:
    try:
        status: Any = await client.ask(endpoint, client.status, client.status.request(), client.timeouts.attempt_s)
    except Fault:
        return False
    return has_ordered_progress(status.version)


def has_ordered_progress(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if not match:
        return False
    major, minor, patch = (int(part) for part in match.groups())
    for first in ORDERED_PROGRESS:
        if (major, minor) == first[:2]:
            return patch >= first[2]
    return (major, minor) > ORDERED_PROGRESS[-1][:2]
