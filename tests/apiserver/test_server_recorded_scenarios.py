"""The API server responds to the requests of recorded scenarios as kube-apiserver does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.request.call import MASTERS, UserInfo
from sampan.apiserver.server import ApiServer
from sampan.cluster.pki import ACCOUNTS, CA, SERVER, Pki
from sampan.host.clock import RealClock
from sampan.storage.memory import MemoryBackend
from sampan.testing.keys import KEYS
from sampan.testing.loop_thread import LoopThread
from tests.apiserver.recorded_scenarios import ScenarioClient, ScenarioRun, differences, responses_path, scenario_names
from tests.cli.command import Sampan
from tests.ports import free_port

TOKEN = "admin-token"
EXPECTED_DIFFERENCES = {
    ("watch-bad", 3): ".body: its history begins with revision 1, while the recorded server had been restarted",
}
"""By scenario and step: the path of a response that differs, and the reason, as in docs/compatibility.md."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioClient]:
    """Return a client of one server for all scenarios, which has no controllers, like the one that was recorded."""
    pki = KEYS.write(tmp_path_factory.mktemp("server") / "pki")
    urls: list[str] = []
    thread = LoopThread("recorded scenarios")
    thread.start(_running_server(pki, urls))
    try:
        yield ScenarioClient(urls[0], TOKEN, pki.certificate(CA))
    finally:
        thread.stop()


@asynccontextmanager
async def _running_server(pki: Pki, urls: list[str]) -> AsyncIterator[None]:
    config = ServerConfig(
        bind_address="127.0.0.1",
        any_secure_port=True,
        advertise_address="192.0.2.1",
        tls=TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER)),
        tokens={TOKEN: UserInfo("admin", "admin", (MASTERS,))},
        service_account_key=pki.key(ACCOUNTS),
        disabled_admission_plugins=("ServiceAccount",),
    )
    async with (
        MemoryBackend(clock=RealClock()) as backend,
        ApiServer(config=config, backend=backend, clock=RealClock()) as server,
    ):
        urls.append(f"https://127.0.0.1:{server.secure_port}")
        yield


@pytest.fixture(scope="module")
def client_of_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioClient]:
    """Return a client of an API server with controllers."""
    home = tmp_path_factory.mktemp("cluster")
    tokens = home / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,{MASTERS}\n")
    sampan, port = Sampan(home), free_port()
    flags = ("--store", "memory", "--secure-port", str(port), "--token-auth-file", str(tokens))
    sampan("up", "--detach", "--components", "apiserver,controllers", *flags)
    try:
        yield ScenarioClient(f"https://127.0.0.1:{port}", TOKEN, Pki(sampan.directory() / "pki").certificate(CA))
    finally:
        sampan("down")


@pytest.mark.parametrize("name", scenario_names(with_controllers=False))
def test_responses_equal_recorded_responses(name: str, client: ScenarioClient) -> None:
    check_scenario(name, client)


@pytest.mark.parametrize("name", scenario_names(with_controllers=True))
def test_responses_of_a_cluster_equal_recorded_responses(name: str, client_of_cluster: ScenarioClient) -> None:
    check_scenario(name, client_of_cluster)


@pytest.mark.parametrize("page", ["README.md", "docs/compatibility.md"])
def test_documented_counts_match(page: str, repository: Path) -> None:
    names = [name for has_controllers in (False, True) for name in scenario_names(with_controllers=has_controllers)]
    steps = sum(len(json.loads(responses_path(name).read_text())) for name in names)
    text = (repository / page).read_text()
    assert f"{steps:,}" in text
    assert f"{steps - len(EXPECTED_DIFFERENCES):,} responses are identical" in text


def check_scenario(name: str, client: ScenarioClient) -> None:
    """Fail with all differences between the responses of a server and the recorded ones."""
    expected = json.loads(responses_path(name).read_text())
    lines, steps = [], {step: path for (scenario, step), path in EXPECTED_DIFFERENCES.items() if scenario == name}
    for want, response in zip(expected, ScenarioRun(client, name).responses(), strict=True):
        for line in differences(want, response):
            path = steps.pop(want["step"], "")
            if not path.startswith(line.partition(":")[0]):
                lines.append(f"step {want['step']} {want['request']} {want['name']} {line}")
    lines += [f"step {step}: the expected difference is gone" for step in steps]
    assert not lines, "\n" + "\n".join(lines)
