"""The import of aiohttp without CA certificates: programs that use aiohttp themselves still verify servers by default.

Each case runs in a process of its own, because aiohttp creates its TLS context once per process.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from tests.apiserver.authn.https_service import https_endpoint
from tests.kubelet.agent.manifest_server import POD

TIMEOUT_S = 120
GET = """
import asyncio, sys
{imports}
import aiohttp

async def main():
    async with {session}() as session, session.get(sys.argv[1]) as response:
        print(response.status, await response.text())

try:
    asyncio.run(main())
except aiohttp.ClientConnectorCertificateError:
    print("certificate error")
"""
STATIC_PODS = """
import asyncio, sys
from pathlib import Path
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.pod_sources import StaticPodSources
from sampan.host.clock import RealClock

async def main():
    pods = asyncio.get_running_loop().create_future()
    config = AgentConfig(name="n", root=Path("/"), logs=Path("/"), static_url=sys.argv[1])
    sources = StaticPodSources(config=config, clock=RealClock(), update=lambda source, pods_: pods.set_result(pods_))
    task = asyncio.create_task(sources.run())
    await asyncio.wait([task, pods], return_when=asyncio.FIRST_COMPLETED)
    print([pod.metadata.name for pod in pods.result()])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

asyncio.run(main())
"""


async def respond(_: web.BaseRequest) -> web.Response:
    return web.Response(text=POD.format("a"))


def run_client(directory: Path, program: str, *, ca_file: str = "") -> str:
    """Run a Python program with the URL of an HTTPS server whose CA is in SSL_CERT_FILE."""

    async def main() -> str:
        async with https_endpoint(directory, respond, wants_certificate=False) as endpoint:
            trusted = ca_file or str(endpoint.pki.directory / "trusted.crt")
            (endpoint.pki.directory / "trusted.crt").write_bytes(endpoint.ca)
            environment = {**os.environ, "SSL_CERT_FILE": trusted, "SSL_CERT_DIR": str(directory / "none")}
            command = [sys.executable, "-c", program, endpoint.url]
            result = await asyncio.to_thread(
                subprocess.run, command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
            )
            assert result.returncode == 0, result.stderr
            return result.stdout.strip()

    return asyncio.run(main())


IMPORTS = {"testing": "from sampan.testing import Cluster", "aiohttp first": "import aiohttp\nimport sampan.testing"}


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_servers_of_the_default_trust_store_are_trusted(tmp_path: Path, imports: str) -> None:
    program = GET.format(imports=imports, session="aiohttp.ClientSession")
    assert run_client(tmp_path, program) == f"200 {POD.format('a').strip()}"


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_servers_of_other_authorities_are_rejected(tmp_path: Path, imports: str) -> None:
    program = GET.format(imports=imports, session="aiohttp.ClientSession")
    assert run_client(tmp_path, program, ca_file=os.devnull) == "certificate error"


@pytest.mark.parametrize(
    ("ca_file", "expected"), [("", f"200 {POD.format('a').strip()}"), (os.devnull, "certificate error")]
)
def test_sessions_of_components_use_the_default_trust_store(tmp_path: Path, ca_file: str, expected: str) -> None:
    program = GET.format(imports="from sampan.machinery.http.session import HttpSession", session="HttpSession")
    assert run_client(tmp_path, program, ca_file=ca_file) == expected


def test_static_pods_are_fetched_over_https(tmp_path: Path) -> None:
    assert run_client(tmp_path, STATIC_PODS) == "['a-n']"


def test_import_loads_no_certificates_and_leaves_ssl_and_the_environment_alone() -> None:
    program = """
import os, ssl
before = (ssl.SSLContext.load_default_certs, ssl.create_default_context, dict(os.environ))
from sampan.machinery.http.lean_aiohttp import aiohttp
assert before == (ssl.SSLContext.load_default_certs, ssl.create_default_context, dict(os.environ))
context = aiohttp.connector._SSL_CONTEXT_VERIFIED
print(ssl.SSLContext.cert_store_stats(context)["x509"], context.verify_mode.name, context.check_hostname)
context.get_ca_certs()
print(type(context) is ssl.SSLContext)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert result.stdout.split() == ["0", "CERT_REQUIRED", "True", "True"], result.stderr
