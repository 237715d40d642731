"""The programs of `sampan envtest path`, started with the flags of controller-runtime's envtest."""

import json
import os
import ssl
import stat
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sampan.cli.envtest.assets import write_assets
from sampan.cli.envtest.etcd import parse_flags
from sampan.cli.envtest.kube_apiserver import drop_unused, find_store
from sampan.cluster.cluster_config import StoreConfig
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from tests.eventually import wait_until
from tests.ports import free_port

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class Environment:
    """The ports and the directory of certificates that envtest prepares."""

    assets: Path
    directory: Path
    etcd_url: str = field(default_factory=lambda: f"http://127.0.0.1:{free_port()}")
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def write_certificates(self) -> None:
        self.directory.mkdir()
        now = time.time()
        ca, client_ca, signer = (make_ca(name, now=now) for name in ("serving", "clients", "accounts"))
        server = SigningRequest(common_name="localhost", addresses=["127.0.0.1"], is_server=True)
        admin = SigningRequest(common_name="admin", organizations=["system:masters"], is_client=True)
        pairs = {
            "apiserver": issue(ca, server, now=now),
            "sa-signer": signer,
            "admin": issue(client_ca, admin, now=now),
        }
        for name, pair in pairs.items():
            (self.directory / f"{name}.crt").write_bytes(pair.certificate)
            (self.directory / f"{name}.key").write_bytes(pair.key)
        (self.directory / "ca.pem").write_bytes(ca.certificate)
        (self.directory / "client-cert-auth-ca.crt").write_bytes(client_ca.certificate)

    @contextmanager
    def running_etcd(self) -> Iterator[None]:
        command = [
            str(self.assets / "etcd"),
            f"--advertise-client-urls={self.etcd_url}",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
            "--unsafe-no-fsync=true",
        ]
        with running_process(command) as process:
            wait_until(lambda: is_up(process, self.etcd_url + "/health"))
            yield

    @contextmanager
    def running_api_server(self, controllers: str) -> Iterator[None]:
        command = [
            str(self.assets / "kube-apiserver"),
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.directory}",
            f"--client-ca-file={self.directory / 'client-cert-auth-ca.crt'}",
            "--disable-admission-plugins=ServiceAccount",
            f"--etcd-servers={self.etcd_url}",
            "--insecure-port=0",
            f"--secure-port={self.port}",
            f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={self.directory / 'sa-signer.crt'}",
            f"--service-account-signing-key-file={self.directory / 'sa-signer.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]
        with running_process(command, SAMPAN_ENVTEST_CONTROLLERS=controllers) as process:
            wait_until(lambda: is_up(process, self.url + "/healthz"))
            yield

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request as the administrator, to the server whose certificate envtest made."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        context.load_cert_chain(self.directory / "admin.crt", self.directory / "admin.key")
        data, headers = json.dumps(body).encode() if body is not None else None, {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@contextmanager
def running_process(command: list[str], **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def is_up(process: "subprocess.Popen[bytes]", url: str) -> bool:
    """Return whether the URL responds, as envtest asks it: without a check of the certificate."""
    assert process.poll() is None, f"the program exited with code {process.returncode}"
    try:
        with urllib.request.urlopen(url, timeout=60, context=ssl._create_unverified_context()) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield write_assets()


@pytest.fixture(scope="module")
def environment(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(assets, tmp_path_factory.mktemp("envtest") / "certificates")
    environment.write_certificates()
    with environment.running_etcd():
        yield environment


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def test_dependents_are_garbage_collected_after_a_restart_with_controllers(environment: Environment) -> None:
    send = environment.request
    with environment.running_api_server(controllers=""):
        code, owner = send("POST", CONFIG_MAPS, config_map("owner"))
        assert code == 201
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        assert send("POST", CONFIG_MAPS, config_map("owned", ownerReferences=[reference]))[0] == 201
        assert send("DELETE", f"{CONFIG_MAPS}/owner")[0] == 200
    with environment.running_api_server(controllers="*"):  # with the garbage collector and the namespace controller
        wait_until(lambda: send("GET", f"{CONFIG_MAPS}/owned")[0] == 404)
        assert send("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})[0] == 201
        assert send("DELETE", "/api/v1/namespaces/shop")[0] == 200
        wait_until(lambda: send("GET", "/api/v1/namespaces/shop")[0] == 404)


def test_sqlite_store_is_found_by_the_url_of_the_etcd_program(environment: Environment) -> None:
    store = find_store(StoreConfig(etcd_servers=[environment.etcd_url]))
    assert store.sqlite is not None
    assert store.sqlite.parent == environment.directory / "etcd"
    assert not store.is_synced


def test_real_etcd_servers_are_used_unchanged() -> None:
    real = StoreConfig(etcd_servers=[f"http://127.0.0.1:{free_port()}", "https://127.0.0.1:1"])
    assert find_store(real) is real


def test_assets_are_written_once_and_missing_programs_restored(assets: Path) -> None:
    times = {path.name: path.stat().st_mtime_ns for path in assets.iterdir()}
    assert set(times) == {"etcd", "kube-apiserver", "kubectl"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o755 for path in assets.iterdir())
    (assets / "kubectl").unlink()
    assert write_assets() == assets
    assert {path.name: path.stat().st_mtime_ns for path in assets.iterdir() if path.name != "kubectl"} == {
        name: mtime for name, mtime in times.items() if name != "kubectl"
    }
    assert os.access(assets / "kubectl", os.X_OK)


@pytest.mark.parametrize(("program", "flag"), [("etcd", "unsafe-no-fsync"), ("kube-apiserver", "insecure-port")])
def test_the_help_lists_flags_at_the_start_of_lines(assets: Path, program: str, flag: str) -> None:
    """envtest decides by the help which flags it passes."""
    output = subprocess.run([str(assets / program), "--help"], capture_output=True, text=True, check=True).stdout
    assert any(line.lstrip().startswith(f"--{flag} ") for line in output.splitlines())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--listen-client-urls=https://127.0.0.1:1"], "needs http://HOST:PORT"),
        (["serve"], "'serve' is not a flag"),
    ],
)
def test_etcd_rejects_unsupported_arguments(assets: Path, tmp_path: Path, words: list[str], reason: str) -> None:
    command = [str(assets / "etcd"), *words]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert completed.returncode == 1
    assert reason in completed.stderr


def test_etcd_flags_are_parsed_as_in_go() -> None:
    words = ["--data-dir=/data", "-name", "node", "--unsafe-no-fsync", "--listen-client-urls", "http://a:1"]
    assert parse_flags(words) == {
        "data-dir": "/data",
        "name": "node",
        "unsafe-no-fsync": "true",
        "listen-client-urls": "http://a:1",
    }


def test_kube_apiserver_flags_without_effect_are_dropped_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--secure-port=1",
        "--goaway-chance=0.1",
        "--allow-privileged=true",
        "--watch-cache",
        "--profiling",
        "false",
    ]
    words += ["--feature-gates=StorageVersionMigrator=true,WatchList=true"]
    assert drop_unused(words) == ["--secure-port=1", "--feature-gates=StorageVersionMigrator=true"]
    assert capsys.readouterr().err.splitlines() == [
        "kube-apiserver: --goaway-chance, --watch-cache, --profiling have no effect in Sampan",
        "kube-apiserver: --feature-gates: WatchList has no effect in Sampan",
    ]
