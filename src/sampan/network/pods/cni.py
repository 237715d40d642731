"""The pod network for runtimes that use CNI plugins (containerd, CRI-O): a CNI configuration file.

The standard plugins connect pods to the bridge, allocate addresses and map host ports; runtimes call `loopback` on
their own. Bridge and rules are those of `host_network`, as on nodes whose runtime creates its own sandboxes. Traffic
that leaves the cluster is masqueraded by these rules, as the bridge plugin would also masquerade traffic to pods on
other nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sampan.host.clock import Clock
from sampan.host.durable_files import write_durably
from sampan.network.bridge_marks import announced_removal
from sampan.network.pods.addresses import Network, gateway, parse_cidrs
from sampan.network.pods.config import BridgeConfig, network_failure
from sampan.network.pods.frame_table import SourceAddress, sources_of
from sampan.network.pods.host_network import HostNetwork, default_route_mtu, unsupported_reason
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

CONFIG_DIRECTORY = Path("/etc/cni/net.d")
RESULT_DIRECTORY = Path("/var/lib/cni/results")
PLUGIN_DIRECTORIES = (Path("/opt/cni/bin"), Path("/usr/lib/cni"), Path("/usr/libexec/cni"))
BANDWIDTH = "bandwidth"
"""A CNI plugin that limits the bandwidth of pods with annotations for it. It is used if the container runtime has
it."""
PLUGINS = ("bridge", "host-local", "loopback", "portmap")
_VERSION = "1.0.0"
_PREFIX = "10-sampan-"
_ENDINGS = (".conf", ".conflist", ".json")
"""Extensions of the configuration files that runtimes read."""
_DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}
_CHECK_S = 60.0


def conflist(
    config: BridgeConfig, networks: Sequence[Network], state: Path, mtu: int, *, limits_bandwidth: bool = False
) -> dict[str, Any]:
    """Return the CNI configuration. Pure; `state` is the data directory of host-local."""
    bridge = {
        "type": "bridge",
        "bridge": config.bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "mtu": mtu,
        "ipam": {
            "type": "host-local",
            "dataDir": str(state),
            "ranges": [
                [{"subnet": str(network), "gateway": gateway(network).partition("/")[0]}] for network in networks
            ],
            "routes": [{"dst": _DEFAULT_ROUTES[network.version]} for network in networks],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    limits = [{"type": BANDWIDTH, "capabilities": {"bandwidth": True}}] if limits_bandwidth else []
    return {"cniVersion": _VERSION, "name": network_name(config.bridge), "plugins": [bridge, ports, *limits]}


def network_name(bridge: str) -> str:
    return f"sampan-{bridge}"


def parse_result(value: Mapping[str, Any]) -> list[SourceAddress]:
    """Return the addresses of a pod in a result of the plugins, as runtimes keep it (libcni). Pure."""
    result = value["result"]
    interfaces = result["interfaces"]
    [own] = [interface for interface in interfaces if interface.get("sandbox") and interface["name"] == value["ifName"]]
    host_end = interfaces[1]["name"]  # the bridge plugin lists the bridge, the host end and the end of the pod
    return sources_of(host_end, own["mac"], [ip["address"] for ip in result["ips"]])


def missing_plugins(directories: Sequence[Path] = PLUGIN_DIRECTORIES) -> list[str]:
    return [name for name in PLUGINS if not _has_plugin(name, directories)]


def _has_plugin(name: str, directories: Sequence[Path]) -> bool:
    return any(os.access(directory / name, os.X_OK) for directory in directories)


class CniNetwork:
    """The network of a runtime that uses CNI plugins.

    `directory` is the runtime's directory of CNI configuration, `plugin_directories` its plugin directories. If
    another network is configured there, it is left alone and connects the pods.
    """

    def __init__(
        self,
        *,
        config: BridgeConfig,
        state: Path,
        clock: Clock,
        directory: Path | None = None,
        plugin_directories: Sequence[Path] = (),
        results: Path = RESULT_DIRECTORY,
    ) -> None:
        self._config, self._state, self._clock = config, state, clock
        self._networks: Sequence[Network] = ()
        """The pod CIDRs that the runtime uses; none if another network connects the pods."""
        self._machine = HostNetwork(
            config=config,
            owner=state,
            networks=lambda: self._networks,
            elements=lambda: (),
            sources=self._read_sources,
            names_links=True,
        )
        self._held: dict[SourceAddress, None] = {}
        """The addresses to which links are held."""
        self._lock = threading.Lock()
        """Held by the thread that changes the machine."""
        self._results = results
        self._directory, self._plugins = directory or CONFIG_DIRECTORY, list(plugin_directories) or PLUGIN_DIRECTORIES

    @property
    def file(self) -> Path:
        return self._directory / f"{_PREFIX}{self._config.bridge}.conflist"

    async def apply(self, cidrs: Sequence[str]) -> None:
        """Configure the pod CIDRs, from which pods created from now on get their addresses."""
        try:
            networks = parse_cidrs(cidrs)
        except ValueError as error:
            raise network_failure(f"podCIDRs: {error}") from None
        await self._run_in_thread(lambda: self._apply(networks))

    async def hold(self) -> None:
        """Hold pods that the runtime has connected to their addresses, before their first containers start."""
        await self._run_in_thread(self._hold)

    async def run(self) -> None:
        """Restore bridge, rules and configuration file periodically, as other programs may remove them, or add rules
        that drop the packets of pods: Docker does so when it starts."""
        while True:
            await self._clock.sleep(_CHECK_S)
            try:
                await self._run_in_thread(self._check)
            except RuntimeFailure as error:
                log.warning("cannot repair the pod network: %s", error)

    async def remove_all(self) -> None:
        """Remove the whole network of a node that is being removed; its pods must be gone."""
        await self._run_in_thread(self._remove_all)

    async def _run_in_thread(self, call: Callable[[], None]) -> None:
        def work() -> None:
            with self._lock, contextlib.closing(self._machine):
                call()

        await asyncio.to_thread(work)

    def _apply(self, networks: Sequence[Network]) -> None:
        if (other := self._find_foreign_configuration()) is not None:
            log.warning("the container runtime uses CNI configuration %s, which Sampan did not write", other)
            return
        if missing := missing_plugins(self._plugins):
            raise network_failure(_missing_plugins_text(missing, self._plugins))
        self._state.mkdir(parents=True, exist_ok=True)
        self._networks = networks
        self._machine.set_up()
        self._write_file()

    def _hold(self) -> None:
        if not self._networks:
            return
        before, present = self._held, self._read_sources()
        self._machine.admit([source for source in present if source not in before])
        self._machine.withdraw([source for source in before if source not in present])

    def _read_sources(self) -> Collection[SourceAddress]:
        """Return the addresses of all pods, from the results of the plugins that runtimes keep until a pod ends."""
        self._held = {}
        for file in sorted(self._results.glob(f"{network_name(self._config.bridge)}-*")):
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
                self._held |= dict.fromkeys(parse_result(json.loads(file.read_bytes())))
        return self._held

    def _check(self) -> None:
        if self._networks and self._find_foreign_configuration() is None:
            self._machine.check()
            self._write_file()

    def _find_foreign_configuration(self) -> Path | None:
        """Return a CNI configuration that Sampan did not write.

        Raise an error if another Sampan node uses this runtime, which has only one network.
        """
        files = sorted(self._directory.iterdir()) if self._directory.is_dir() else []
        for file in files:
            if file == self.file or file.suffix not in _ENDINGS:
                continue
            if not file.name.startswith(_PREFIX):
                return file
            with announced_removal(file.stem.removeprefix(_PREFIX)) as is_unused:
                if not is_unused or not _is_left(file):
                    raise network_failure(
                        f"the CRI runtime has the pod network of another node ({file}): it can serve only one"
                    )
                file.unlink(missing_ok=True)
        return None

    def _write_file(self) -> None:
        mtu, limits_bandwidth = self._config.mtu or default_route_mtu(), _has_plugin(BANDWIDTH, self._plugins)
        value = conflist(self._config, self._networks, self._state, mtu, limits_bandwidth=limits_bandwidth)
        text = msgspec.json.format(msgspec.json.encode(value), indent=2)
        if self.file.exists() and self.file.read_bytes() == text:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        write_durably(self.file, text, mode=0o644, is_synced=False)  # written again at each start

    def _remove_all(self) -> None:
        self._networks = ()
        self.file.unlink(missing_ok=True)
        shutil.rmtree(self._state, ignore_errors=True)
        if not unsupported_reason():
            self._machine.remove_all()
            clear_portmap()


def _is_left(file: Path) -> bool:
    """Whether the directory of the node that wrote the file is gone, so that nothing else will remove the file."""
    try:
        state = json.loads(file.read_bytes())["plugins"][0]["ipam"]["dataDir"]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return not Path(state).parent.exists()


def _missing_plugins_text(missing: Sequence[str], directories: Sequence[Path]) -> str:
    searched = ", ".join(map(str, directories))
    elsewhere = [
        directory
        for directory in PLUGIN_DIRECTORIES
        if directory not in directories and not missing_plugins([directory])
    ]
    if elsewhere:
        message = f"the container runtime searches CNI plugins in {searched}, but they are in {elsewhere[0]}"
        return f"{message}: set bin_dir in its configuration to that directory"
    return f"CNI plugins are missing in {searched} ({', '.join(missing)}): install containernetworking-plugins"


_IPTABLES_PROGRAMS = ("iptables", "ip6tables")
_PORTMAP_PREFIX, _PORTMAP_DNAT = "CNI-HOSTPORT-", "CNI-HOSTPORT-DNAT"
_TIMEOUT_S = 60


def portmap_removal(rules: Iterable[str]) -> list[list[str]]:
    """Return the arguments of the iptables calls for the removal, from the output of `iptables -t nat -S`. Pure."""
    split_rules = [shlex.split(rule) for rule in rules if rule.strip()]
    chains = [rule[1] for rule in split_rules if rule[0] == "-N" and rule[1].startswith(_PORTMAP_PREFIX)]
    if any(rule[:2] == ["-A", _PORTMAP_DNAT] for rule in split_rules):
        return []
    deletions = [["-D", *rule[1:]] for rule in split_rules if rule[0] == "-A" and rule[-1] in chains]
    return [*deletions, *(["-F", chain] for chain in chains), *(["-X", chain] for chain in chains)]


def clear_portmap() -> None:
    """Remove the iptables chains that the portmap plugin leaves behind, ignoring errors. All users of the plugin
    share them, so that they are kept while any host port is mapped.
    """
    for name in _IPTABLES_PROGRAMS:
        if (program := shutil.which(name)) is not None:
            with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
                for arguments in portmap_removal(_iptables(program, "-S").splitlines()):
                    _iptables(program, *arguments)


def _iptables(program: str, *arguments: str) -> str:
    call = [program, "-w", "5", "-t", "nat", *arguments]
    return subprocess.run(call, capture_output=True, check=False, text=True, timeout=_TIMEOUT_S).stdout
