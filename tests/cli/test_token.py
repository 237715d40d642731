"""`sampan token`, and one-use tokens."""

import asyncio
import json
import subprocess
from collections.abc import Iterator

import pytest

from sampan.cluster.join.token import parse_token
from sampan.host.clock import RealClock
from sampan.kubelet.agent.certificate_manager import RequestDenied, client_request, request_certificate
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.pki.certificates import make_key, make_request, public_key_hash
from tests.cli.command import Sampan, get
from tests.eventually import wait_until
from tests.ports import free_port


def start_cluster(sampan: Sampan, *words: str) -> int:
    port = free_port()
    sampan("up", "--detach", "--components", "apiserver,controllers", "--secure-port", str(port), *words)
    return port


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sampan, int]]:
    """A cluster that only listens locally and keeps expired tokens, and its port."""
    sampan = Sampan(tmp_path_factory.mktemp("cluster"))
    try:
        yield sampan, start_cluster(sampan, "--controllers", "*,-token-cleaner-controller")
    finally:
        sampan.run("down")


def test_a_token_is_created_listed_and_deleted(sampan: Sampan) -> None:
    port = start_cluster(sampan, "--bind-address", "0.0.0.0")
    token = parse_token(sampan("token", "create", "--ttl", "2h", "--description", "rack 3"))
    assert token.ca_hash == public_key_hash((sampan.directory() / "pki" / "ca.crt").read_bytes())
    line = sampan("token", "create", "--print-join-command").strip()
    assert line.startswith("echo ")
    assert f":{port} --token-file -" in line
    assert " | sampan join " in line
    listing = sampan("token", "list")
    assert token.secret not in listing
    row = next(row for row in listing.splitlines() if row.startswith(token.id))
    assert "1h" in row
    assert "rack 3" in row
    assert max(map(len, listing.splitlines())) <= 80
    assert "system:bootstrappers:kubeadm:default-node-token" in sampan("token", "ls", "-o", "wide")
    sampan("token", "rm", token.id)
    assert token.id not in sampan("token", "list")
    assert "there is no token" in sampan.expect_failure("token", "delete", token.id)


def test_token_create_on_a_loopback_only_cluster_suggests_bind_address(cluster: tuple[Sampan, int]) -> None:
    sampan, _ = cluster
    done: subprocess.CompletedProcess[str] = sampan.run("token", "create")
    assert done.returncode == 0
    assert "sampan up --bind-address 0.0.0.0" in done.stderr


def test_invalid_token_flags_are_reported(sampan: Sampan, cluster: tuple[Sampan, int]) -> None:
    assert "is not a cluster that runs on this machine" in sampan.expect_failure("token", "list")
    sampan, _ = cluster
    assert "--usages" in sampan.expect_failure("token", "create", "--usages", "cooking")
    assert "--groups" in sampan.expect_failure("token", "create", "--groups", "system:masters")
    assert "--ttl" in sampan.expect_failure("token", "create", "--ttl", "soon")
    assert "--one-use" in sampan.expect_failure("token", "create", "--one-use", "--usages", "signing")


async def _request(port: int, ca: bytes, bearer: str, node: str) -> bytes:
    access = Access(server=f"https://127.0.0.1:{port}", ca_pem=ca, token=bearer)
    request = client_request(node)
    async with HttpTransport(access) as transport, asyncio.timeout(30):
        client = Client(transport=transport, clock=RealClock(), component="test")
        return await request_certificate(
            client, make_request(make_key().key, request.content), request.signer, request.usages
        )


def test_a_token_for_one_use_lets_one_node_join(cluster: tuple[Sampan, int]) -> None:
    sampan, port = cluster
    ca = (sampan.directory() / "pki" / "ca.crt").read_bytes()
    bearer = parse_token(sampan("token", "create", "--one-use")).bearer

    async def request_all() -> list[bytes | BaseException]:
        requests = (_request(port, ca, bearer, node) for node in ("node-a", "node-b", "node-c"))
        return await asyncio.gather(*requests, return_exceptions=True)

    results = asyncio.run(request_all())
    assert sum(isinstance(result, bytes) for result in results) == 1
    assert sum(isinstance(result, RequestDenied) and "has been used" in str(result) for result in results) == 2


def test_an_expired_token_is_rejected(cluster: tuple[Sampan, int]) -> None:
    sampan, port = cluster
    token = parse_token(sampan("token", "create"))
    nodes = f"https://127.0.0.1:{port}/api/v1/nodes"
    assert get(nodes, token=token.bearer)[0] == 403, "a valid token authenticates, but may not list nodes"
    patch = json.dumps({"stringData": {"expiration": "2020-01-02T03:04:05Z"}})
    sampan("kubectl", "patch", "secret", "-n", "kube-system", f"bootstrap-token-{token.id}", "-p", patch)
    wait_until(lambda: get(nodes, token=token.bearer)[0] == 401)
    ca = (sampan.directory() / "pki" / "ca.crt").read_bytes()
    with pytest.raises(errors.Unauthorized):
        asyncio.run(_request(port, ca, token.bearer, "node-a"))
