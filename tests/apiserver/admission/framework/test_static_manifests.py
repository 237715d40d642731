"""Webhook configurations and policies in the manifests of a directory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.server import ApiServer
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.storage.memory import MemoryBackend
from tests.api_server import ADMIN

GATES = FeatureGates(level=37)
PLUGIN = "ValidatingAdmissionPolicy"
API = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: names.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: ["*"]}
  validations: [{expression: "!object.metadata.name.startsWith('bad')", message: a bad name}]
"""
BINDING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: names.static.k8s.io}
spec: {policyName: names.static.k8s.io, validationActions: [Deny]}
"""
HOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook.static.k8s.io}
webhooks:
- name: hook.example.com
  clientConfig: {CLIENT}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
"""


def _configuration(directory: Path | str, plugin: str = PLUGIN) -> dict[str, Any]:
    kind = f"{plugin}Configuration" if plugin.endswith("Policy") else "WebhookAdmission"
    value = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": kind, "staticManifestsDir": str(directory)}
    return {plugin: value}


class _Server:
    def __init__(self, server: ApiServer, clock: VirtualClock) -> None:
        self._server, self.clock = server, clock

    async def create(self, path: str, value: dict[str, Any]) -> str:
        """Create an object, and return the message of the error, if any."""
        headers = {"Content-Type": "application/json"}
        body = msgspec.json.encode(value)
        call = Call(method="POST", path=path, query=Query(""), headers=headers, body=body, user=ADMIN)
        try:
            await self._server.pipeline.serve_as(call)
        except errors.ApiError as error:
            return error.message
        return ""


@asynccontextmanager
async def _server(directory: Path, plugin: str = PLUGIN) -> AsyncIterator[_Server]:
    clock = VirtualClock()
    config = ServerConfig(
        secure_port=0, feature_gates=GATES, admission_configurations=_configuration(directory, plugin)
    )
    async with MemoryBackend(clock=clock) as backend, ApiServer(config=config, backend=backend, clock=clock) as server:
        yield _Server(server, clock)


def _map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_policies_in_manifests_apply_to_all_objects_and_are_reloaded(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "policy.yaml").write_text(f"{POLICY}---{BINDING}")
        (tmp_path / "notes.txt").write_text("not a manifest")
        async with _server(tmp_path) as server:
            assert await server.create(MAPS, _map("good")) == ""
            title = "ValidatingAdmissionPolicy 'names.static.k8s.io' with binding 'names.static.k8s.io'"
            denial = f"{title} denied request: a bad name"
            assert denial in await server.create(MAPS, _map("bad"))
            assert denial in await server.create(f"{API}/validatingwebhookconfigurations", _map("bad"))
            (tmp_path / "policy.yaml").write_text("kind: Nonsense")
            await server.clock.advance(11)
            assert denial in await server.create(MAPS, _map("bad"))
            (tmp_path / "policy.yaml").write_text(POLICY.replace("a bad name", "another name") + "---" + BINDING)
            await server.clock.advance(11)
            assert "denied request: another name" in await server.create(MAPS, _map("bad"))

    asyncio.run(work())


def test_webhooks_in_manifests_are_called(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "hook.yaml").write_text(HOOK.replace("{CLIENT}", '{url: "https://127.0.0.1:1/check"}'))
        async with _server(tmp_path, "ValidatingAdmissionWebhook") as server:
            assert await server.create(MAPS, _map("a")) == ""
            message = await server.create("/api/v1/namespaces/default/secrets", _map("a"))
            assert 'failed calling webhook "hook.example.com"' in message

    asyncio.run(work())


def test_the_api_reserves_the_names_of_manifests(tmp_path: Path) -> None:
    async def work() -> None:
        async with _server(tmp_path) as server:
            message = await server.create(f"{API}/validatingwebhookconfigurations", _map("a.static.k8s.io"))
            assert message == (
                'ValidatingWebhookConfiguration.admissionregistration.k8s.io "a.static.k8s.io" is invalid: '
                'metadata.name: Invalid value: "a.static.k8s.io": names ending with ".static.k8s.io" are reserved for '
                "static manifest-based configurations and cannot be managed via the API"
            )

    asyncio.run(work())


@pytest.mark.parametrize(
    ("plugin", "text", "message"),
    [
        (PLUGIN, "kind: ConfigMap\napiVersion: v1", "unsupported resource type v1, Kind=ConfigMap"),
        (PLUGIN, POLICY.replace("names.static.k8s.io", "names"), 'must have a name ending with ".static.k8s.io"'),
        (PLUGIN, f"{POLICY}---{POLICY}", 'duplicate name "names.static.k8s.io"'),
        (PLUGIN, BINDING, 'references policy "names.static.k8s.io" which does not exist in the manifest directory'),
        (PLUGIN, POLICY.replace("expression:", "expresion:"), 'unknown field "spec.validations[0].expresion"'),
        (PLUGIN, POLICY.replace("startsWith('bad')", "nonsense()"), "undeclared reference to 'nonsense'"),
        (
            "ValidatingAdmissionWebhook",
            HOOK.replace("{CLIENT}", "{service: {name: a, namespace: b}}"),
            "clientConfig.service is not supported for static manifests; use clientConfig.url instead",
        ),
        (PLUGIN, "a: [", "yaml"),
    ],
)
def test_invalid_manifests_prevent_the_start(tmp_path: Path, plugin: str, text: str, message: str) -> None:
    async def work() -> None:
        (tmp_path / "a.yaml").write_text(text)
        with pytest.raises(ConfigurationError) as raised:
            async with _server(tmp_path, plugin):
                pass
        assert message in str(raised.value)

    asyncio.run(work())


def test_the_directory_must_exist_and_the_gate_be_on(tmp_path: Path) -> None:
    def check(directory: Path | str, message: str, gates: FeatureGates = GATES) -> None:
        with pytest.raises(ConfigurationError, match=message):
            default_plugins(configurations=_configuration(directory), feature_gates=gates)

    check("relative", "must be an absolute file path")
    check(tmp_path / "none", "must be a directory")
    gates = FeatureGates({"ManifestBasedAdmissionControlConfig": False}, level=37)
    check(tmp_path, "requires the ManifestBasedAdmissionControlConfig feature gate", gates)
