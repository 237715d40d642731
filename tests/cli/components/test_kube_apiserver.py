"""`sampan kube-apiserver`: the API server alone."""

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.command import Sampan, get
from tests.ports import free_port
from tests.storage.etcd_server import find, one_member


@contextmanager
def serving(sampan: Sampan, *words: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server; its plain HTTP address and its process."""
    port = free_port()
    command = ("kube-apiserver", "--secure-port", str(free_port()), "--insecure-port", str(port), *words)
    with sampan.running(*command) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            if re.fullmatch(r"kube-apiserver is ready on port \d+ \(\d+\.\d\d s\)\n", line):
                break
            lines.append(line)
        else:
            raise AssertionError(f"it ended before it was ready: {''.join(lines)}")
        yield f"http://127.0.0.1:{port}", process


def post(url: str, name: str) -> int:
    body = json.dumps({"metadata": {"name": name}}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
        code: int = response.status
        return code


def test_serves_and_ends(sampan: Sampan) -> None:
    with serving(sampan) as (url, process):
        assert get(f"{url}/readyz") == (200, "ok")
        assert post(f"{url}/api/v1/namespaces/default/configmaps", "settings") == 201
        assert list(sampan.home.glob("sampan-certs-*")) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_runs_no_controllers(sampan: Sampan) -> None:
    with serving(sampan) as (url, _):
        assert json.loads(get(f"{url}/api/v1/serviceaccounts")[1])["items"] == []


def test_certificates_that_are_kept(sampan: Sampan, tmp_path: Path) -> None:
    directory = tmp_path / "deep/certs"
    with serving(sampan, "--cert-dir", str(directory)):
        first = (directory / "apiserver.crt").read_bytes()
    with serving(sampan, "--cert-dir", str(directory)):
        assert (directory / "apiserver.crt").read_bytes() == first


@pytest.mark.skipif(find("etcd") is None, reason="there is no etcd here")
def test_two_servers_on_one_etcd(sampan: Sampan, tmp_path: Path) -> None:
    """Each sees what the other writes, at once in reads and in watches."""
    with ExitStack() as stack:
        member = stack.enter_context(one_member(tmp_path))
        first, _ = stack.enter_context(serving(sampan, "--etcd-servers", member.client_url))
        other, _ = stack.enter_context(serving(sampan, "--etcd-servers", member.client_url))
        maps = "/api/v1/namespaces/default/configmaps"
        watch = stack.enter_context(urllib.request.urlopen(f"{other}{maps}?watch=true&timeoutSeconds=30", timeout=60))
        for number in range(5):
            assert post(f"{first}{maps}", f"map-{number}") == 201
            assert get(f"{other}{maps}/map-{number}")[0] == 200
            event = json.loads(watch.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", f"map-{number}")
        assert post(f"{other}{maps}", "back") == 201
        assert get(f"{first}{maps}/back")[0] == 200
        listed = json.loads(get(f"{first}{maps}")[1])["items"]
        assert [item["metadata"]["name"] for item in listed] == ["back", *(f"map-{number}" for number in range(5))]
