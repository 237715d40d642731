"""`sampan kube-apiserver`: the API server alone."""

import asyncio
import json
import re
import signal
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.apiserver.authn.https_service import https_endpoint
from tests.cli.command import Sampan, get
from tests.cli.fork_server import ForkedServer
from tests.ports import free_port
from tests.storage.etcd_server import find, running_member


@contextmanager
def running_server(sampan: Sampan, *words: str) -> Iterator[tuple[str, ForkedServer]]:
    """Run `sampan kube-apiserver`; yield its plain HTTP address and its process."""
    port = free_port()
    command = ("kube-apiserver", "--secure-port", str(free_port()), "--insecure-port", str(port), *words)
    with sampan.running_forked_server(*command) as process:
        lines = []
        for line in process.stdout:
            if re.fullmatch(r"kube-apiserver is ready on port \d+ \(\d+\.\d\d s\)\n", line):
                break
            lines.append(line)
        else:
            raise AssertionError(f"kube-apiserver exited before it was ready: {''.join(lines)}")
        yield f"http://127.0.0.1:{port}", process


def post(url: str, name: str) -> int:
    body = json.dumps({"metadata": {"name": name}}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
        code: int = response.status
        return code


def test_kube_apiserver_serves_without_controllers_until_sigterm(sampan: Sampan) -> None:
    with running_server(sampan) as (url, process):
        assert get(f"{url}/readyz") == (200, "ok")
        assert json.loads(get(f"{url}/api/v1/serviceaccounts")[1])["items"] == [], "no controllers run"
        assert post(f"{url}/api/v1/namespaces/default/configmaps", "settings") == 201
        assert list(sampan.home.glob("sampan-certs-*")) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_cert_dir_keeps_certificates_over_restarts(sampan: Sampan, tmp_path: Path) -> None:
    directory = tmp_path / "deep/certs"
    with running_server(sampan, "--cert-dir", str(directory)):
        first = (directory / "apiserver.crt").read_bytes()
    with running_server(sampan, "--cert-dir", str(directory)):
        assert (directory / "apiserver.crt").read_bytes() == first


def test_default_toleration_and_cipher_suite_flags_take_effect(sampan: Sampan, tmp_path: Path) -> None:
    words = "--default-not-ready-toleration-seconds=30 --default-unreachable-toleration-seconds 40"
    suites = "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    port = free_port()
    flags = (*words.split(), suites, "--secure-port", str(port), "--disable-admission-plugins=ServiceAccount")
    with running_server(sampan, *flags) as (url, _):
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        request = urllib.request.Request(
            f"{url}/api/v1/namespaces/default/pods", json.dumps(pod).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            tolerations = json.load(response)["spec"]["tolerations"]
        assert [toleration["tolerationSeconds"] for toleration in tolerations] == [30, 40]
        assert _negotiate_tls_12_suite(port) == "ECDHE-ECDSA-CHACHA20-POLY1305"


async def test_audit_events_reach_the_webhook(sampan: Sampan, tmp_path: Path) -> None:
    """The kubeconfig of the webhook, the policy and the batch size are set by flags."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        received.put_nowait(await request.json())
        return web.Response()

    async with https_endpoint(tmp_path, respond) as endpoint:
        flags = ("--audit-policy-file", str(policy), "--audit-webhook-config-file", str(endpoint.kubeconfig()))
        with running_server(sampan, *flags, "--audit-webhook-batch-max-size=1"):
            events = (await asyncio.wait_for(received.get(), 60))["items"]
        assert [event["user"]["username"] for event in events] == ["system:apiserver"]


def _negotiate_tls_12_suite(port: int) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port), 60) as plain, context.wrap_socket(plain) as wrapped:
        suite = wrapped.cipher()
        assert suite is not None
        return suite[0]


@pytest.mark.skipif(find("etcd") is None, reason="there is no etcd here")
def test_two_servers_on_one_etcd_see_each_others_writes(sampan: Sampan, tmp_path: Path) -> None:
    """Objects that one server writes are visible in reads and watches of the other at once."""
    with ExitStack() as stack:
        member = stack.enter_context(running_member(tmp_path))
        first, _ = stack.enter_context(running_server(sampan, "--etcd-servers", member.client_url))
        other, _ = stack.enter_context(running_server(sampan, "--etcd-servers", member.client_url))
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
