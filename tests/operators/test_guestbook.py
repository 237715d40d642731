"""The guestbook of examples/ with its own image, on real nodes: what is written in the page is read from a replica."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Sampan
from tests.e2e.machine import NEEDS_NODE_NETWORKS, Machine, wait_for
from tests.operators.go_program import AGNHOST
from tests.ports import free_port
from tests.runtimes.images.builders import MadeImage, oci_archive

pytestmark = NEEDS_NODE_NETWORKS

EXAMPLE = Path(__file__).parents[2] / "examples/guestbook.yaml"
IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.55"
PAGE = "/api/v1/namespaces/default/services/frontend:80/proxy/guestbook"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    program = AGNHOST.build_or_skip().read_bytes()
    machine = Machine(Sampan(tmp_path))
    try:
        machine.sampan("up", "--detach", "--nodes", "2", "--runtime", "oci", "--secure-port", str(free_port()))
        image = MadeImage({"agnhost": program}, Entrypoint=["/agnhost"], Cmd=["pause"])
        machine.sampan("image", "load", str(oci_archive(tmp_path / "agnhost.tar", image, IMAGE)))
        yield machine
    finally:
        machine.sampan("down")


def test_guestbook_stores_entries_and_reads_them_from_replicas(machine: Machine) -> None:
    machine.sampan("kubectl", "apply", "-f", str(EXAMPLE))
    for deployment in ("agnhost-primary", "agnhost-replica", "frontend"):
        machine.sampan("kubectl", "rollout", "status", f"deployment/{deployment}", "--timeout=60s")
    written = machine.sampan("kubectl", "get", "--raw", f"{PAGE}?cmd=set&key=visitor&value=ann")
    assert json.loads(written) == {"message": "Updated"}

    def read() -> str:
        return str(json.loads(machine.sampan("kubectl", "get", "--raw", f"{PAGE}?cmd=get&key=visitor"))["data"])

    assert wait_for(read) == "ann"
