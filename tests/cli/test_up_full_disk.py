"""A cluster whose disk is full or read-only: which requests succeed, which errors are shown, which objects remain."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Sampan, get, wait_until_ready
from tests.cli.fork_server import ForkedServer
from tests.eventually import wait_until
from tests.ports import free_port

MAPS = "/api/v1/namespaces/default/configmaps"
REASON = "no space left on device"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory = tmp_path / "small"
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(directory)]).returncode:
        pytest.skip("mounting is not allowed here")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


@contextmanager
def _cluster(sampan: Sampan, disk: Path, port: int) -> Iterator[tuple[str, ForkedServer]]:
    words = ("up", "--data-dir", str(disk / "c"), "--components", "apiserver", "--nodes", "0", "--secure-port", "0")
    with sampan.running_forked_server(*words, "--insecure-port", str(port)) as process:
        yield f"http://127.0.0.1:{port}", process


def _send(url: str, method: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    content = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.request.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def _names(url: str) -> set[str]:
    return {obj["metadata"]["name"] for obj in json.loads(get(url + MAPS)[1])["items"]} - {"kube-root-ca.crt"}


def _fill(disk: Path) -> None:
    """Fill the disk."""
    with (disk / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))


def _wait_until_started(process: ForkedServer) -> None:
    """Wait until the command has written all its files and printed what to type next, which comes after /readyz."""
    assert any(line.startswith("  try ") for line in process.stdout)


def test_on_a_full_disk_objects_can_be_deleted_and_nothing_is_lost(sampan: Sampan, small_disk: Path) -> None:
    with _cluster(sampan, small_disk, free_port()) as (url, process):
        _wait_until_started(process)
        created, refused = set(), 0
        _fill(small_disk)
        for number in range(2000):
            body = {"metadata": {"name": f"m{number:04}"}, "data": {"x": "y" * 10_000}}
            code, text = _send(url + MAPS, "POST", body)
            if code == 201:
                created.add(f"m{number:04}")
            else:
                assert (code, REASON in text, "state.db" in text) == (503, True, True)
                refused += 1
            if refused == 20:  # the first failures make it drop its history, which may make room for more objects
                break
        assert len(created) >= 10
        code, text = get(f"{url}/readyz")
        assert (code, "[-]etcd failed: reason withheld" in text) == (500, True)
        code, text = get(f"{url}/readyz/etcd")
        assert (code, REASON in text) == (500, True)
        assert get(f"{url}/livez") == (200, "ok"), "a restart would not help"
        for name in sorted(created)[:10]:
            assert _send(f"{url}{MAPS}/{name}", "DELETE")[0] == 200
            created.remove(name)
        assert _names(url) == created
        process.kill()
        process.wait(60)
    with _cluster(sampan, small_disk, free_port()) as (url, process):
        wait_until(lambda: get(url + MAPS)[0] == 200, ignore=(OSError,))  # it is not ready as long as the disk is full
        assert _names(url) == created
        for name in created:
            assert _send(f"{url}{MAPS}/{name}", "DELETE")[0] == 200
        (small_disk / "filler").unlink()
        wait_until_ready(url)
        assert _send(url + MAPS, "POST", {"metadata": {"name": "again"}})[0] == 201


def test_a_data_directory_that_cannot_be_written_is_reported_in_one_line(sampan: Sampan, small_disk: Path) -> None:
    (small_disk / "c").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    error = sampan.expect_failure(
        "up", "--data-dir", str(small_disk / "c"), "--components", "apiserver", "--nodes", "0"
    )
    assert error == f"Error: --data-dir: cannot write to {small_disk / 'c'}: Read-only file system\n"


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 GB that is 89% full. The blocks of the filler are allocated, not written."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    image, directory = tmp_path / "disk", tmp_path / "full"
    directory.mkdir()
    for words in (
        ["truncate", "--size", "3G", str(image)],
        ["mkfs.ext4", "-q", "-m", "0", str(image)],
        ["mount", "-o", "loop", str(image), str(directory)],
    ):
        if subprocess.run(words, capture_output=True).returncode:
            pytest.skip(f"{words[0]} does not work here: a loop device and mkfs.ext4 (e2fsprogs) are needed")
    subprocess.run(["fallocate", "--length", "2600M", str(directory / "filler")], check=True)
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_pods_run_on_a_machine_with_a_rather_full_disk(sampan: Sampan, full_disk: Path) -> None:
    where = ("--data-dir", str(full_disk / "cluster"))
    port = str(free_port())
    sampan("up", "-d", *where, "--secure-port", port, "--bind-address", "127.0.0.1", "--runtime", "process")
    try:
        words = ("--image", "sampan.local/host", "--overrides", '{"spec": {"hostNetwork": true}}')
        sampan("kubectl", "--name", "sampan", "run", "web", *words, "--command", "--", "sleep", "1000")
        sampan("kubectl", "--name", "sampan", "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
        # The thresholds are checked every 10 s, first when the kubelet starts.
        node = sampan("kubectl", "--name", "sampan", "get", "node", "node-0", "-o", "yaml")
        assert "KubeletHasNoDiskPressure" in node
    finally:
        sampan("down", *where)
