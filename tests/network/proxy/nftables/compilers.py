"""Compilers for the node and the CIDRs of random services."""

from __future__ import annotations

from sampan.network.proxy.nftables.compiler import ServiceCompiler
from sampan.network.proxy.nftables.families import FAMILIES_BY_NAME
from sampan.network.proxy.proxy_config import ProxyConfig, node_facts
from tests.network.proxy.random_services import CLUSTER_CIDRS, NODE_IPS, SERVICE_CIDRS

CONFIG = ProxyConfig(cluster_cidrs=CLUSTER_CIDRS)


def compiler_of(family: str, config: ProxyConfig = CONFIG) -> ServiceCompiler:
    facts = node_facts(config, family, node_ips=list(NODE_IPS.values()), service_cidrs=SERVICE_CIDRS)
    return ServiceCompiler(FAMILIES_BY_NAME[family], config, facts)
