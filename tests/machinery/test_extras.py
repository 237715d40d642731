"""Optional dependencies: a cluster runs without them, and features that need one name its extra."""

import asyncio
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sampan.cluster.cluster_config import StoreConfig
from sampan.host.clock import RealClock
from sampan.kubelet.agent.shutdown import logind
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.probes.prober import probe_grpc
from sampan.machinery import extras
from sampan.machinery.cli_errors import expected_message
from sampan.machinery.extras import MissingExtra, require
from sampan.storage.encryption.ciphers import SecretBox

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_WITHOUT_EXTRAS = """
import sys
sys.modules |= dict.fromkeys(["grpc", "google", "google.protobuf", "nacl", "dbus_fast", "numpy", "uvloop"])
from sampan.testing import Cluster
with Cluster(components=["apiserver", "controllers"]) as cluster:
    with cluster.namespace() as name:
        print(name)
"""


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in extras._EXTRAS:
        monkeypatch.setitem(sys.modules, module, None)
    calls.read_schema.cache_clear()


def test_extras_are_declared_in_pyproject() -> None:
    declared = tomllib.loads(_PYPROJECT.read_text())["project"]["optional-dependencies"]
    names = {extra for extra, _ in extras._EXTRAS.values()}
    assert names <= set(declared)
    assert all(name in declared["all"][0] for name in names)


def test_a_missing_extra_is_named_in_one_line(without_extras: None) -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'sampan\[secretbox\]'") as raised:
        require("nacl")
    assert expected_message(raised.value) == str(raised.value)


def test_features_name_the_extra_that_they_need(without_extras: None, tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match=r"sampan\[grpc\]"):
        StoreConfig(etcd_servers=["http://127.0.0.1:1"]).open(RealClock())
    with pytest.raises(MissingExtra, match=r"sampan\[secretbox\]"):
        SecretBox(bytes(32))
    with pytest.raises(calls.RpcError, match=r"sampan\[grpc\]"):
        calls.read_schema(tmp_path / "csi.proto")
    result = asyncio.run(probe_grpc("127.0.0.1", 1, "", 1.0))
    assert not result.is_success
    assert "sampan[grpc]" in result.text

    async def connect() -> None:
        async with logind.connect():
            pass

    with pytest.raises(logind.LogindError, match=r"sampan\[systemd\]"):
        asyncio.run(connect())


def test_cluster_runs_without_extras() -> None:
    command = [sys.executable, "-c", _WITHOUT_EXTRAS]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout
