"""The flags of `sampan up` for the Ingress controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.cluster.cluster_config import CONTROLLERS, KUBELET, PROXY
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.network.ingress.publication import IngressConfig

_NEEDED = (CONTROLLERS, KUBELET, PROXY)

INGRESS_FLAGS = (
    Flag(name="--ingress", help="Run an Ingress controller on the real nodes.", default=False, is_switch=True),
    Flag(name="--ingress-http-port", help="Port of the Ingress controller for HTTP.", default=80, type=int),
    Flag(name="--ingress-https-port", help="Port of the Ingress controller for HTTPS.", default=443, type=int),
)


def ingress_config(options: Mapping[str, Any], components: Sequence[str], nodes: NodesConfig) -> IngressConfig | None:
    """Return the configuration of the Ingress controller; None without --ingress."""
    if not options["ingress"]:
        return None
    if missing := [component for component in _NEEDED if component not in components]:
        raise CliError(f"--ingress: needs {', '.join(missing)} in --components")
    if not nodes.real_count:
        raise CliError(f"--ingress: needs a node that runs containers; {nodes.note or 'there is none'}")
    http_port = _port("--ingress-http-port", options["ingress_http_port"])
    https_port = _port("--ingress-https-port", options["ingress_https_port"])
    if http_port == https_port:
        raise CliError("--ingress-https-port: must differ from --ingress-http-port")
    from sampan.network.ingress.publication import IngressConfig

    return IngressConfig(http_port=http_port, https_port=https_port)


def _port(flag: str, number: int) -> int:
    if number == 0:
        raise CliError(f"{flag}: {number} is not a port")
    return parsers.port(flag, number)
