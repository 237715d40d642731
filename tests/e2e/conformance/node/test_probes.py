"""The conformance descriptions of sig-node for probes, each a test whose first line is its name."""

from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.api.values import times
from tests.e2e.conformance.node.pods import container, is_ready, ready, restarts, run, status
from tests.e2e.conformance.own_python import own_python
from tests.e2e.conformance.storage.real_node import NODE, RealNode, together
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
"""Answers well for so many seconds, and badly after."""
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
"""Says over gRPC that it serves."""
PROBES = 4
"""So many results of a probe would have restarted the container, or made it ready, several times."""


def healthy(seconds: float) -> dict[str, Any]:
    return {"command": ["python3", "-c", HEALTH, str(seconds)]}


def every_second(failures: int = 1, **how: Any) -> dict[str, Any]:
    """A busy machine has a minute for the answer."""
    waits = {"initialDelaySeconds": 2, "periodSeconds": 1, "timeoutSeconds": 60}
    return {**waits, "failureThreshold": failures, **how}


async def is_probed(node: RealNode, probe_type: str) -> None:
    """Wait until the kubelet has counted some more results of the probe of the container."""

    async def results() -> int:
        rows = (await node.fetch(f"/api/v1/nodes/{NODE}/proxy/metrics/probes")).splitlines()
        labels = (f'namespace="{node.namespace}"', f'probe_type="{probe_type}"')
        return sum(int(float(row.rpartition(" ")[2])) for row in rows if all(label in row for label in labels))

    async def has_more() -> bool:
        return await results() >= before + PROBES

    before = await results()
    await eventually(has_more, poll_s=0.2)


async def is_restarted(node: RealNode, **more: Any) -> None:
    await run(node, container(**more))
    await node.when("p", lambda pod: restarts(pod) == 1)


async def is_not_restarted(node: RealNode, probe: dict[str, Any], **more: Any) -> None:
    """Once it has answered a first time."""
    await run(node, container(**more, startupProbe=every_second(100, **probe), livenessProbe=every_second(**probe)))
    await ready(node)
    await is_probed(node, "Liveness")
    assert restarts(await node.client.of(Pod).get("p", node.namespace)) == 0


CAT: dict[str, Any] = {"exec": {"command": ["cat", "/tmp/health"]}}
HEALTHZ: dict[str, Any] = {"httpGet": {"path": "/healthz", "port": 8080}}


@together
async def test_command_that_fails(node: RealNode) -> None:
    """[sig-node] Probing container should be restarted with a exec "cat /tmp/health" liveness probe [NodeConformance]
    [Conformance]"""
    script = "echo ok > /tmp/health; sleep 3; rm /tmp/health; sleep 600"
    await is_restarted(node, script=script, livenessProbe=every_second(**CAT))


@together
async def test_command_that_succeeds(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a exec "cat /tmp/health" liveness probe
    [NodeConformance] [Conformance]"""
    await is_not_restarted(node, CAT, script="echo ok > /tmp/health; sleep 600")


@together
async def test_answer_that_is_bad(node: RealNode) -> None:
    """[sig-node] Probing container should be restarted with a /healthz http liveness probe [NodeConformance]
    [Conformance]"""
    await is_restarted(node, **healthy(3), livenessProbe=every_second(**HEALTHZ))


@together
async def test_answer_that_is_good(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a /healthz http liveness probe [NodeConformance]
    [Conformance]"""
    await is_not_restarted(node, HEALTHZ, **healthy(1000))


@together
async def test_port_that_is_open(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a tcp:8080 liveness probe [NodeConformance]
    [Conformance]"""
    await is_not_restarted(node, {"tcpSocket": {"port": 8080}}, **healthy(1))


async def speaks_grpc(node: RealNode, port: int) -> None:
    """A pod with a server on port 5000 that is asked on this one once it has begun to answer."""
    responses = every_second(100, tcpSocket={"port": 5000})
    probe = every_second(grpc={"port": port})
    program = own_python(HEALTH_PROTOCOL)
    run_with = container(**program.container, startupProbe=responses, livenessProbe=probe)
    await run(node, run_with, volumes=program.volumes)


@together
async def test_grpc_that_serves(node: RealNode) -> None:
    """[sig-node] Probing container should *not* be restarted with a GRPC liveness probe [NodeConformance]
    [Conformance]"""
    await speaks_grpc(node, 5000)
    await ready(node)
    await is_probed(node, "Liveness")
    pod = await node.client.of(Pod).get("p", node.namespace)
    assert (is_ready(pod), restarts(pod)) == (True, 0)


@together
async def test_grpc_on_a_wrong_port(node: RealNode) -> None:
    """[sig-node] Probing container should be restarted with a GRPC liveness probe [NodeConformance] [Conformance]"""
    await speaks_grpc(node, 2333)
    await node.when("p", lambda pod: restarts(pod) == 1)


@together
async def test_restarts_are_counted(node: RealNode) -> None:
    """[sig-node] Probing container should have monotonically increasing restart count [NodeConformance]
    [Conformance]"""
    counts: list[int] = []

    def enough(pod: Pod) -> bool:
        counts.append(restarts(pod))
        return counts[-1] == 2

    await run(node, container(**healthy(1), livenessProbe=every_second(**HEALTHZ)))
    await node.when("p", enough)
    assert counts == sorted(counts)


@together
async def test_not_ready_before_its_delay(node: RealNode) -> None:
    """[sig-node] Probing container with readiness probe should not be ready before initial delay and never restart
    [NodeConformance] [Conformance]"""
    probe = {**HEALTHZ, "initialDelaySeconds": 3, "periodSeconds": 1}
    await run(node, container(**healthy(1000), readinessProbe=probe))
    pod = await ready(node)
    state = status(pod).state.running
    since = next(condition.lastTransitionTime for condition in pod.status.conditions if condition.type == "Ready")
    assert state is not None
    assert times.parse_time(str(since)) - times.parse_time(str(state.startedAt)) >= 3
    assert restarts(pod) == 0


@together
async def test_never_ready(node: RealNode) -> None:
    """[sig-node] Probing container with readiness probe that fails should never be ready and never restart
    [NodeConformance] [Conformance]"""
    await run(node, container(readinessProbe=every_second(exec={"command": ["false"]})))
    await node.running("p")
    await is_probed(node, "Readiness")
    pod = await node.client.of(Pod).get("p", node.namespace)
    assert (is_ready(pod), restarts(pod)) == (False, 0)
