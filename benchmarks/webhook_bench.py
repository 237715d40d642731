"""Admission webhooks: the CPU time that a call costs the API server, with HTTP and TLS. The webhook runs in a separate
process."""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import Row
from benchmarks.api_pipeline import JSON, cpu_us, make_call
from sampan.apiserver.admission.framework.contract import RegisteredPlugin
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.proxy.kubelets import KubeletAccess, Kubelets
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.webhooks.client import WebhookClients
from sampan.cli.local_cluster.server_process import run_loop
from tests.apiserver.in_process_server import in_process_client
from tests.apiserver.webhook_server import json_patch, webhook_server

COUNT, ROUNDS = 200, 5
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
KINDS = {"validating": "ValidatingWebhookConfiguration", "mutating": "MutatingWebhookConfiguration"}
DATA = {f"key{number}": "v" * 50 for number in range(20)}
PATCH = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]


def rows() -> Iterator[Row]:
    for word in KINDS:
        figures: list[float] = []
        run_loop(_measure(word, figures))
        yield Row(f"call a {word} webhook, CPU of the server", figures[0] / 1000, "ms", 0.5, "with TLS")


async def _measure(word: str, figures: list[float]) -> None:
    figures.append(await _call_us(word))


async def _call_us(word: str) -> float:
    """Return the difference between creates of a config map of 1 KB with and without a webhook."""
    with tempfile.TemporaryDirectory() as directory, _webhook(directory) as process:
        assert process.stdout is not None
        config = json.loads(process.stdout.readline())
        clients: list[WebhookClients] = []

        def make_plugins(registry: Registry) -> Sequence[RegisteredPlugin]:
            kubelets = Kubelets(registry=registry, access=KubeletAccess())
            clients.append(WebhookClients(registry=registry, kubelets=kubelets))
            return default_plugins(webhooks=clients[0])

        async with in_process_client(make_plugins=make_plugins) as client:
            await client.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
            plain = await _best_us(client.pipeline, "plain")
            await client.create(f"{CONFIGURATIONS}/{KINDS[word].lower()}s", _configuration(config[word]))
            called = await _best_us(client.pipeline, "called")
            await clients[0].close()
        process.communicate()
    return called - plain


async def _best_us(pipeline: Any, prefix: str) -> float:
    figures = [
        await cpu_us(pipeline, [_create(f"{prefix}-{number}-{index}") for index in range(COUNT)])
        for number in range(ROUNDS)
    ]
    return statistics.median(sorted(figures)[:3])


def _create(name: str) -> Any:
    return make_call("POST", CONFIG_MAPS, msgspec.json.encode({"metadata": {"name": name}, "data": DATA}), JSON)


def _configuration(client: dict[str, Any]) -> dict[str, Any]:
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    hook = {
        "name": "bench.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "rules": [rule],
    }
    return {"metadata": {"name": "bench"}, "webhooks": [hook]}


def _webhook(directory: str) -> "subprocess.Popen[str]":
    """Start a webhook that ends with its standard input."""
    command = [sys.executable, "-m", "benchmarks.webhook_bench", directory]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True, **(json_patch(*PATCH) if path == "/mutating" else {})}


async def _serve(directory: Path) -> None:
    async with webhook_server(directory, _respond) as server:
        print(json.dumps({word: server.client_config(f"/{word}") for word in KINDS}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
