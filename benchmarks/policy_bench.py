"""Network policies: the CPU time of a node for those of a large cluster, and for one change."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import Row
from benchmarks.processes import own_cpu_s
from sampan.api.types.networking_v1 import NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.object_key import key_of
from sampan.network.pods import unsupported_reason
from sampan.network.policy.compiler import PolicyCompiler, PolicyConfig
from sampan.network.policy.enforcer import PolicyEnforcer
from sampan.network.policy.pods import endpoint_of
from sampan.network.policy.policy_spec import policy_spec
from tests.network.pods.lab import Lab
from tests.network.policy import objects

PODS, LOCAL, NAMESPACES, ROUNDS = 10_000, 100, 100, 20
NOTE = f"{PODS:,} pods, {LOCAL} of this node, {2 * NAMESPACES} policies"


def rows() -> Iterator[Row]:
    if unsupported_reason():
        return
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory))
        try:
            config = PolicyConfig(node="n0", bridge="bench0")
            enforcer = PolicyEnforcer(config=config, namespace=NetworkNamespace(lab.node), clock=RealClock())
            yield from _measure(enforcer)
            enforcer.close()
        finally:
            lab.close()


def _measure(enforcer: PolicyEnforcer) -> Iterator[Row]:
    compiler = enforcer.compiler
    yield Row("CPU to compile all policies", _cpu_ms(lambda: _fill(compiler)), "ms", note=NOTE)
    began = time.perf_counter()
    cpu = _cpu_ms(lambda: asyncio.run(enforcer.start()))
    yield Row("CPU of the first transaction", cpu, "ms", note="with nft and the kernel")
    yield Row("first transaction", (time.perf_counter() - began) * 1000, "ms")

    def compile_changes() -> None:
        for number in range(ROUNDS):
            _put_pod(compiler, number * LOCAL + 1, role="web" if number % 2 else "other", shift=number + 1)

    yield Row("CPU to compile a changed pod", _cpu_ms(compile_changes) / ROUNDS, "ms", goal=0.5, note=NOTE)

    async def commit_changes() -> None:
        for number in range(ROUNDS):
            _put_pod(compiler, number * LOCAL + 2, role="web", shift=100 + number)
            await enforcer.commit()

    asyncio.run(enforcer.commit())
    cpu = _cpu_ms(lambda: asyncio.run(commit_changes())) / ROUNDS
    yield Row("CPU of a changed pod", cpu, "ms", goal=15, note="a transaction each, with nft and the kernel")


def _fill(compiler: PolicyCompiler) -> None:
    for number in range(NAMESPACES):
        space = f"ns-{number}"
        compiler.put_namespace(space, objects.namespace(space, {"team": str(number % 10)}).metadata.labels)
        deny = objects.policy(f"{space}/deny", NetworkPolicySpec(policyTypes=["Ingress"]))
        peers = [
            NetworkPolicyPeer(podSelector=objects.selector(role="web")),
            NetworkPolicyPeer(namespaceSelector=objects.selector(team="3"), podSelector=objects.selector(role="web")),
        ]
        rule = NetworkPolicyIngressRule(from_=peers)
        web = objects.policy(
            f"{space}/web", NetworkPolicySpec(podSelector=objects.selector(role="api"), ingress=[rule])
        )
        for policy in (deny, web):
            compiler.put_policy(key_of(policy), policy_spec(policy))
    for number in range(PODS):
        _put_pod(compiler, number, role=("web", "api")[number // NAMESPACES % 2])


def _put_pod(compiler: PolicyCompiler, number: int, *, role: str, shift: int = 0) -> None:
    """Put a pod. One of each namespace belongs to the node."""
    is_local = number // NAMESPACES == 1
    host = number + shift * PODS
    pod = objects.pod(
        f"ns-{number % NAMESPACES}/pod-{number}",
        f"10.{host // 62500}.{host // 250 % 250}.{host % 250}",
        labels={"role": role},
        node="n0" if is_local else "n1",
    )
    compiler.put_pod(key_of(pod), endpoint_of(pod))


def _cpu_ms(work: Callable[[], object]) -> float:
    before = own_cpu_s(with_children=True)
    work()
    return (own_cpu_s(with_children=True) - before) * 1000
