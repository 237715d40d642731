"""The etcd that the tests of the store use once it is built."""

import subprocess
from pathlib import Path

import pytest

from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD
from tests.storage.etcd_server import ETCD, ETCDCTL, find


@NEEDS_TIME_TO_BUILD
def test_tests_of_the_store_use_etcd_3_6(monkeypatch: pytest.MonkeyPatch) -> None:
    etcd, etcdctl = ETCD.build_or_skip(), ETCDCTL.build_or_skip()
    monkeypatch.delenv("SAMPAN_TEST_ETCD", raising=False)
    assert (find("etcd"), find("etcdctl")) == (str(etcd), str(etcdctl))
    assert _version(etcd, "--version").startswith("etcd Version: 3.6.")
    assert _version(etcdctl, "version").startswith("etcdctl version: 3.6.")


def _version(program: Path, argument: str) -> str:
    return subprocess.run([program, argument], capture_output=True, text=True, check=True).stdout
