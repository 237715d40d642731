"""Both implementations of UserApi pass the same conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sampan.apiserver.server import ApiServer
from sampan.dashboard.http_api import HttpApiSource
from sampan.machinery import errors
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import UserApi, UserApiSource, UserCredentials
from sampan.testing import Cluster
from sampan.testing.user_api_conformance import UserApiConformance
from tests.dashboard.certificates import self_signed
from tests.dashboard.page import account_token

_VERSION = Request(method="GET", path="/version")


def admin_credentials(cluster: Cluster) -> UserCredentials:
    certificate, key = (path.read_bytes() for path in cluster.client_certificate)
    return UserCredentials(client_cert_pem=certificate, client_key_pem=key)


async def source_of(cluster: Cluster, form: str) -> UserApiSource:
    if form == "http":
        return HttpApiSource(kubeconfig.load(cluster.kubeconfig))
    server: ApiServer = cluster.assembly.server
    return server.user_api_source()


class _ApisOfOneCluster(UserApiConformance):
    form = ""

    @asynccontextmanager
    async def apis(self) -> AsyncIterator[tuple[UserApi, UserApi]]:
        async with Cluster(components=("apiserver",)) as cluster:
            source = await source_of(cluster, self.form)
            admin = await source.open_with_credentials(admin_credentials(cluster))
            token = await account_token(cluster.client, "nobody")
            nobody = await source.open_with_credentials(UserCredentials(token=token))
            try:
                yield admin, nobody
            finally:
                await admin.close()
                await nobody.close()


class TestInProcessApi(_ApisOfOneCluster):
    form = "in-process"


class TestHttpApi(_ApisOfOneCluster):
    form = "http"


@pytest.mark.parametrize("form", ["in-process", "http"])
async def test_a_certificate_without_its_key_is_rejected(form: str) -> None:
    async with Cluster(components=("apiserver",)) as cluster:
        credentials = admin_credentials(cluster)
        stolen = UserCredentials(client_cert_pem=credentials.client_cert_pem, client_key_pem=cluster.ca.read_bytes())
        source = await source_of(cluster, form)
        with pytest.raises((errors.Unauthorized, ValueError)):
            await _log_in(source, stolen)


async def _log_in(source: UserApiSource, credentials: UserCredentials) -> None:
    api = await source.open_with_credentials(credentials)
    try:
        await api.send(_VERSION)
    finally:
        await api.close()


async def test_in_process_api_rejects_a_certificate_of_another_ca() -> None:
    async with Cluster(components=("apiserver",)) as cluster:
        certificate, key = self_signed("system:admin", "system:masters")
        source = await source_of(cluster, "in-process")
        with pytest.raises(errors.Unauthorized):
            await source.open_with_credentials(UserCredentials(client_cert_pem=certificate, client_key_pem=key))
