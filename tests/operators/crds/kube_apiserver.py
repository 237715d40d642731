"""A real kube-apiserver with etcd, built from the Go modules that the conformance suite pins."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.conformance.programs import BuildError, Program, build
from tests.eventually import wait_until
from tests.operators.crds.comparison import Server
from tests.ports import free_port
from tests.storage.etcd_server import NO_ETCD, Member, find

KUBE_APISERVER = Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")
_TOKEN = "admin-token"
_STOP_S = 60


def build_or_skip() -> Path:
    """Return the program. With empty caches of Go, its build takes 400 s of CPU time."""
    if find("etcd") is None:
        pytest.skip(NO_ETCD)
    if not os.environ.get("SAMPAN_BUILD_OPERATORS"):
        pytest.skip("the comparison with kube-apiserver is part of `make operators`, which builds it")
    try:
        return build(KUBE_APISERVER)
    except BuildError as error:
        pytest.skip(str(error))


@contextmanager
def running_kube_apiserver(program: Path, directory: Path) -> Iterator[Server]:
    store = Member(directory=directory / "etcd", flags=["--unsafe-no-fsync"])
    store.start()
    try:
        store.wait_until_healthy()
        port = free_port()
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(_command(program, store, directory, port), stdout=log, stderr=log)
        try:
            server = Server(port, _trusting_context(), _TOKEN)
            wait_until(server.is_ready, describe=lambda: (directory / "log").read_text()[-2000:])
            yield server
            server.close()
        finally:
            process.terminate()
            process.wait(_STOP_S)
    finally:
        store.kill()


def _command(program: Path, store: Member, directory: Path, port: int) -> list[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signing = directory / "service-accounts.key"
    signing.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    tokens = directory / "tokens.csv"
    tokens.write_text(f"{_TOKEN},admin,admin,system:masters\n")
    return [
        str(program),
        f"--etcd-servers={store.client_url}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory / 'certificates'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={signing}",
        f"--service-account-signing-key-file={signing}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
    ]


def _trusting_context() -> ssl.SSLContext:
    """Return a context for the certificate that the server makes for itself."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
