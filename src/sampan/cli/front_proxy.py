"""The front proxy of a cluster, with which the API server authenticates to aggregated API servers."""

from __future__ import annotations

import dataclasses

from sampan.apiserver.authn.front_proxy import FrontProxySettings
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cli.pki import PROXY_CA, PROXY_CLIENT, Pki


def with_front_proxy(server: ServerConfig, pki: Pki) -> ServerConfig:
    """Add the front proxy settings of the cluster's own PKI, unless flags configure a front proxy CA or client
    certificate."""
    if server.front_proxy is not None or server.proxy_client is not None:
        return server
    settings = FrontProxySettings(
        ca=pki.certificate(PROXY_CA),
        allowed_names=(PROXY_CLIENT,),
        username_headers=("X-Remote-User",),
        group_headers=("X-Remote-Group",),
        extra_prefixes=("X-Remote-Extra-",),
    )
    client = (pki.certificate(PROXY_CLIENT), pki.key(PROXY_CLIENT))
    return dataclasses.replace(server, front_proxy=settings, proxy_client=client)
