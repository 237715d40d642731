"""Request the client certificate of a node with a bootstrap token (TLS bootstrapping), and read the networks of the
cluster."""

from __future__ import annotations

import asyncio

from sampan.api.types.core_v1 import ConfigMap
from sampan.cluster.join.discovery import JoinError
from sampan.cluster.join.grants import CLUSTER_CONFIG, ClusterNetworks, read_cluster_config
from sampan.controllers.security.bootstrap_tokens import NAMESPACE
from sampan.host.clock import RealClock
from sampan.kubelet.agent.certificate_manager import RequestDenied, client_request, request_certificate
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.pki.certificates import KeyPair, make_key, make_request

_SIGNING_TIMEOUT_S = 60.0


async def bootstrap(access: Access, node: str) -> tuple[KeyPair, ClusterNetworks]:
    """Return the client certificate of the node with its key, and the networks of the cluster. `access` has the
    bootstrap token. Raise JoinError if the cluster refuses."""
    request, key = client_request(node), make_key().key
    try:
        async with HttpTransport(access) as transport, asyncio.timeout(_SIGNING_TIMEOUT_S):
            client = Client(transport=transport, clock=RealClock(), component="sampan-join")
            networks = await read_networks(client)
            certificate = await request_certificate(
                client, make_request(key, request.content), request.signer, request.usages
            )
    except TimeoutError:
        raise JoinError(
            f"the cluster did not sign the certificate of node {node} within {_SIGNING_TIMEOUT_S:.0f} s: does "
            "its controller manager run? See `kubectl get csr`"
        ) from None
    except RequestDenied as error:
        raise JoinError(f"{error}; `sampan token create` makes another token") from None
    except errors.Unauthorized:
        raise JoinError("the API server does not accept the token: it expired, was used or deleted") from None
    except (errors.ApiError, ConnectionFailed) as error:
        raise JoinError(f"cannot request a certificate for node {node}: {error}") from None
    return KeyPair(certificate, key), networks


async def read_networks(client: Client) -> ClusterNetworks:
    """Return the networks in the ConfigMap kubeadm-config. Without the ConfigMap return empty networks: the node has to
    use defaults."""
    try:
        return read_cluster_config(await client.for_kind(ConfigMap).get(CLUSTER_CONFIG, NAMESPACE))
    except (errors.NotFound, errors.Forbidden):
        return ClusterNetworks()
