"""Conformance tests of sig-node for probes. The first paragraph of a docstring is the official test name."""

from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.api.values import times
from tests.e2e.conformance.node.pods import (
    container,
    container_status,
    count_restarts,
    create_pod,
    is_ready,
    wait_until_ready,
)
from tests.e2e.conformance.own_python import python_program
from tests.e2e.conformance.storage.real_node import NODE, RealNode, concurrent_scenario
from tests.eventually import eventually

HEALTH = """
import http.server, sys, time
began = time.time()
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if time.time() - began < float(sys.argv[1]) else 500)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.HTTPServer(("", 8080), Answers).serve_forever()
"""
"""A server that responds with 200 for a number of seconds, and with 500 afterwards."""
HEALTH_PROTOCOL = """
import grpc, sys
from concurrent.futures import ThreadPoolExecutor
class Health(grpc.GenericRpcHandler):
    def service(self, call):
        if call.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"\\x08\\x01")
server = grpc.server(ThreadPoolExecutor(2))
server.add_generic_rpc_handlers([Health()])
server.add_insecure_port("0.0.0.0:5000")
server.start()
server.wait_for_termination()
"""
"""A gRPC server whose health check returns SERVING."""
PROBES = 4
"""After this number of results, a wrong probe would have restarted the container, or made it ready, several times."""


def health_server_command(seconds: float) -> dict[str, Any]:
    return {"command": ["python3", "-c", HEALTH, str(seconds)]}


def probe_every_second(failures: int = 1, **how: Any) -> dict[str, Any]:
    """Return the timing of a probe; a busy machine has a minute for the response."""
    waits = {"initialDelaySeconds": 2, "periodSeconds": 1, "timeoutSeconds": 60}
    return {**waits, "failureThreshold": failures, **how}


async def wait_for_probe_results(node: RealNode, probe_type: str) -> None:
    """Wait until the kubelet has counted some more results of this probe."""

    async def results() -> int:
        rows = (await node.fetch(f"/api/v1/nodes/{NODE}/proxy/metrics/probes")).splitlines()
        labels = (f'namespace="{node.namespace}"', f'probe_type="{probe_type}"')
        return sum(int(float(row.rpartition(" ")[2])) for row in rows if all(label in row for label in labels))

    async def has_more() -> bool:
        return await results() >= before + PROBES

    before = await results()
    await eventually(has_more, poll_s=0.2)


async def check_restarted(node: RealNode, **more: Any) -> None:
    await create_pod(node, container(**more))
    await node.wait_for("p", lambda pod: count_restarts(pod) == 1)


async def check_not_restarted(node: RealNode, probe: dict[str, Any], **more: Any) -> None:
    """Check that the liveness probe does not restart the container after its startup probe has succeeded."""
    await create_pod(
        node,
        container(**more, startupProbe=probe_every_second(100, **probe), livenessProbe=probe_every_second(**probe)),
    )
    await wait_until_ready(node)
    await wait_for_probe_results(node, "Liveness")
    assert count_restarts(await node.client.for_kind(Pod).get("p", node.namespace)) == 0


CAT: dict[str, Any] = {"exec": {"command": ["cat", "/tmp/health"]}}
HEALTHZ: dict[str, Any] = {"httpGet": {"path": "/healthz", "port": 8080}}


@concurrent_scenario
async def test_failed_exec_liveness_probe_restarts_the_container(node: RealNode) -> None:
    """[sig-node] Probing container should be restarted with a exec "cat /tmp/health" liveness probe [NodeConformance]
    [Conformance]"""
    script = "echo ok > /tmp/health; sleep 3; rm /tmp/health; sleep 600"
    await check_restarted(node, script=script, livenessProbe=probe_every_second(**CAT))


@concurrent_scenario
async def test_successful_exec_liveness_probe_does_not_restart(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a exec "cat /tmp/health" liveness probe
    [NodeConformance] [Conformance]"""
    await check_not_restarted(node, CAT, script="echo ok > /tmp/health; sleep 600")


@concurrent_scenario
async def test_failed_http_liveness_probe_restarts_the_container(node: RealNode) -> None:
    """[sig-node] Probing container should be restarted with a /healthz http liveness probe [NodeConformance]
    [Conformance]"""
    await check_restarted(node, **health_server_command(3), livenessProbe=probe_every_second(**HEALTHZ))


@concurrent_scenario
async def test_successful_http_liveness_probe_does_not_restart(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a /healthz http liveness probe [NodeConformance]
    [Conformance]"""
    await check_not_restarted(node, HEALTHZ, **health_server_command(1000))


@concurrent_scenario
async def test_successful_tcp_liveness_probe_does_not_restart(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a tcp:8080 liveness probe [NodeConformance]
    [Conformance]"""
    await check_not_restarted(node, {"tcpSocket": {"port": 8080}}, **health_server_command(1))


async def run_grpc_server(node: RealNode, port: int) -> None:
    """Run a pod with a gRPC server on port 5000 and a liveness probe of `port`, which starts once the server
    listens."""
    responses = probe_every_second(100, tcpSocket={"port": 5000})
    probe = probe_every_second(grpc={"port": port})
    program = python_program(HEALTH_PROTOCOL)
    run_with = container(**program.container, startupProbe=responses, livenessProbe=probe)
    await create_pod(node, run_with, volumes=program.volumes)


@concurrent_scenario
async def test_successful_grpc_liveness_probe_does_not_restart(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a GRPC liveness probe [NodeConformance]
    [Conformance]"""
    await run_grpc_server(node, 5000)
    await wait_until_ready(node)
    await wait_for_probe_results(node, "Liveness")
    pod = await node.client.for_kind(Pod).get("p", node.namespace)
    assert (is_ready(pod), count_restarts(pod)) == (True, 0)


@concurrent_scenario
async def test_failed_grpc_liveness_probe_restarts_the_container(node: RealNode) -> None:
    """[sig-node] Probing container should be restarted with a GRPC liveness probe [NodeConformance] [Conformance]"""
    await run_grpc_server(node, 2333)
    await node.wait_for("p", lambda pod: count_restarts(pod) == 1)


@concurrent_scenario
async def test_restart_count_increases_monotonically(node: RealNode) -> None:
    """[sig-node] Probing container should have monotonically increasing restart count [NodeConformance]
    [Conformance]"""
    counts: list[int] = []

    def record_restarts(pod: Pod) -> bool:
        counts.append(count_restarts(pod))
        return counts[-1] == 2

    await create_pod(node, container(**health_server_command(1), livenessProbe=probe_every_second(**HEALTHZ)))
    await node.wait_for("p", record_restarts)
    assert counts == sorted(counts)


@concurrent_scenario
async def test_readiness_probe_respects_initial_delay(node: RealNode) -> None:
    """[sig-node] Probing container with readiness probe should not be ready before initial delay and never restart
    [NodeConformance] [Conformance]"""
    probe = {**HEALTHZ, "initialDelaySeconds": 3, "periodSeconds": 1}
    await create_pod(node, container(**health_server_command(1000), readinessProbe=probe))
    pod = await wait_until_ready(node)
    state = container_status(pod).state.running
    since = next(condition.lastTransitionTime for condition in pod.status.conditions if condition.type == "Ready")
    assert state is not None
    assert times.parse_time(str(since)) - times.parse_time(str(state.startedAt)) >= 3
    assert count_restarts(pod) == 0


@concurrent_scenario
async def test_failed_readiness_probe_keeps_the_pod_not_ready(node: RealNode) -> None:
    """[sig-node] Probing container with readiness probe that fails should never be ready and never restart
    [NodeConformance] [Conformance]"""
    await create_pod(node, container(readinessProbe=probe_every_second(exec={"command": ["false"]})))
    await node.wait_until_running("p")
    await wait_for_probe_results(node, "Readiness")
    pod = await node.client.for_kind(Pod).get("p", node.namespace)
    assert (is_ready(pod), count_restarts(pod)) == (False, 0)
