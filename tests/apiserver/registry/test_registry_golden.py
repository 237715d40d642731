"""Golden replay: requests recorded against a real kube-apiserver get equal responses."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sampan.api.types.core_v1 import Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.admission.plugins import default_plugins
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.manager import ControllerManager
from sampan.machinery.pki.token_signer import TokenSigner
from sampan.testing.loop_thread import LoopThread
from tests.api_server import Server, running_api_server

SCENARIOS: dict[str, Collection[int]] = {
    "configmaps-basic": (),
    "secrets-basic": (),
    "serviceaccounts-token": (),
    "namespaces-finalize": (),
    "namespaces-protected": (),
    "services-clusterip": (),
    "services-types": (),
    "services-validation": (),
    "nodes-basic": (),
    "events-core": (),
    "events-new": (),
    "leases-priorityclasses": (18,),
    "endpoints-endpointslices": (),
    "replicationcontrollers-basic": (),
    "limitranges-resourcequotas": (),
    "podtemplates-controllerrevisions": (),
    "persistentvolumes-basic": (16,),
    "persistentvolumeclaims-basic": (),
    "storageclasses-basic": (),
    "ingresses-basic": (),
    "networkpolicies-basic": (),
    "certificatesigningrequests-basic": (),
    "runtimeclasses-csidrivers": (),
    "admission-cluster-defaults": (),
    "admission-webhook-objects": (14,),
    "auth-rbac-roles": (),
    "auth-rbac-bindings": (),
    "crd-create": (3, 6, 7, *range(17, 24)),
    "lists-tables-columns": (),
    "lists-partial": (),
    "deployments-defaults": (),
    "deployments-update-scale": (),
    "deployments-validation": (),
    "replicasets-basic": (),
    "statefulsets-basic": (),
    "statefulsets-validation": (),
    "daemonsets-basic": (),
    "jobs-defaults": (),
    "jobs-validation": (16, 17),
    "cronjobs-basic": (),
    "hpas-versions": (),
    "poddisruptionbudgets-basic": (),
    "patch-apply-basics": (),
    "patch-apply-conflicts": (),
    "patch-apply-lists": (),
    "patch-apply-status": (),
    "patch-generation": range(10, 23),
    "patch-json": (),
    "patch-json-bad": (),
    "patch-managed-fields": (),
    "patch-merge": (),
    "patch-strategic-directives": (),
    "patch-strategic-lists": (),
    "patch-update-rules": (),
    "delete-collection": (),
    "delete-finalizers": (),
    "delete-grace": (),
    "delete-options": (),
    "validation-create": (),
    "validation-patch": (),
    "validation-yaml": (*range(9, 16), 17),
    "discovery-bodies": (),
    "discovery-content-type": (),
}
"""Each scenario with the steps that are skipped because they need more than this server: the classes that a cluster has
from its start, custom resources, or the controllers of workloads."""
CONTROLLERS = (
    "serviceaccount-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "disruption-controller",
)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of scenarios: written in C where libyaml exists, which takes an eighth of the time."""


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", shared_dir / "golden" / "golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def server(golden: ModuleType) -> Iterator[Any]:
    """Return one server for all scenarios: each has its own namespace, and deletes the cluster-scoped objects that it
    creates."""
    urls: list[str] = []
    thread = LoopThread("golden replay")
    thread.start(_running_server(urls))
    try:
        yield golden.Server(urls[0], None, True)
    finally:
        thread.stop()


@asynccontextmanager
async def _running_server(urls: list[str]) -> AsyncIterator[None]:
    async with running_api_server(plugins=default_plugins()) as server, asyncio.TaskGroup() as group:
        server.registry.token_signer = _signer()
        controllers = group.create_task(_controllers(server).run())
        for namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
            await _create_namespace(server, namespace)
        urls.append(server.url)
        yield
        controllers.cancel()


@pytest.mark.parametrize("name", SCENARIOS)
def test_responses_equal_recorded_responses_of_kube_apiserver(
    name: str, golden: ModuleType, server: Any, shared_dir: Path
) -> None:
    directory = shared_dir / "golden"
    scenario = yaml.load((directory / "scenarios" / f"{name}.yaml").read_text(), Loader=LOADER)
    expected = json.loads((directory / "recorded" / f"{name}.json").read_text())
    skipped_steps = SCENARIOS[name]
    for step in skipped_steps:
        scenario["steps"][step] = {"request": "GET /version", "hidden": True}
    responses = golden.run(server, scenario, name)
    differences = [
        f"step {want['step']} {want['request']} {want['name']}: {line}"
        for want, got in zip([want for want in expected if want["step"] not in skipped_steps], responses, strict=True)
        for line in golden.differences(want, got)
    ]
    assert differences == []


def _signer() -> TokenSigner:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return TokenSigner(key_pem=pem, issuer="https://kubernetes.default.svc")


def _controllers(server: Server) -> ControllerManager:
    return ControllerManager(
        client_for=lambda name: server.client(component=name or "informers"),
        clock=server.clock,
        names=CONTROLLERS,
        config=ControllerConfig(root_ca="a bundle"),
    )


async def _create_namespace(server: Server, name: str) -> None:
    await server.client().for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name=name)))
