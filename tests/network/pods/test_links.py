"""Links of pods, in a network namespace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods import links
from sampan.network.pods.links import PodLinks
from tests.network.pods.lab import Lab, needs_network


@needs_network
def test_delete_continues_past_a_link_that_the_kernel_has_removed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel removes a link with the namespace of its peer, at any time after it was looked up."""
    index_of, indexes = links.index_of, {"gone0": 1_000_000}

    def find_stale_index(link: str) -> int:
        return indexes.pop(link, 0) or index_of(link)

    def work() -> list[str]:
        for name in ("left0", "left1"):
            subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], check=True)
        pod_links = PodLinks("br0", Path("/test"))
        try:
            pod_links.delete("gone0", "left0", "left1")
        finally:
            pod_links.close()
        return [name for name in ("left0", "left1") if index_of(name)]

    monkeypatch.setattr(links, "index_of", find_stale_index)
    assert run_in_network(lab.node, work) == []
