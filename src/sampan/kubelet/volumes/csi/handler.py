"""Registers and deregisters CSI drivers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from sampan.api import gotext
from sampan.kubelet.plugin_registry import PluginFault
from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.csi.client import Driver, Drivers
from sampan.kubelet.volumes.csi.node_info import NodeInfos
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed

log = logging.getLogger(__name__)

TYPE = "CSIPlugin"


class CsiHandler:
    def __init__(self, *, drivers: Drivers, infos: NodeInfos, on_driver: Callable[[str], None]) -> None:
        """`on_driver` receives the name of each new driver."""
        self._drivers, self._infos, self._on_driver = drivers, infos, on_driver
        self._endpoints: dict[str, set[str]] = {}

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if why := refusal(name, versions):
            raise PluginFault(f"validation failed for CSI Driver {name} at endpoint {endpoint}: {why}")

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        driver = Driver(name, endpoint)
        try:
            await self._infos.install(name, await driver.info())
        except (VolumeFault, errors.ApiError, ConnectionFailed) as error:
            raise PluginFault(str(error)) from error
        self._drivers.add(driver)
        self._endpoints.setdefault(name, set()).add(endpoint)
        self._on_driver(name)

    async def refresh(self, name: str) -> None:
        """Publish the driver's current node information. Raise VolumeFault, ApiError or ConnectionFailed on errors."""
        driver = self._drivers.get(name, "updateCSIDriver")
        await self._infos.install(name, await driver.info())

    async def deregister(self, name: str, endpoint: str) -> None:
        endpoints = self._endpoints.get(name, set())
        endpoints.discard(endpoint)
        if endpoints:
            return
        self._drivers.remove(name)
        try:
            await self._infos.uninstall(name)
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning("cannot remove CSI driver %s from the CSINode object: %s", name, error)


def refusal(name: str, versions: Sequence[str]) -> str:
    """Return why the driver cannot be registered, or an empty string. Pure."""
    start = f'kubernetes.io/csi: ValidatePlugin for CSI driver "{name}" failed.'
    if not versions:
        return f"{start} Plugin returned an empty list for supported versions"
    if not any(version.lstrip("v").startswith("1.") for version in versions):
        quoted_versions = " ".join(gotext.quote(version) for version in versions)
        return f"{start} None of the versions specified [{quoted_versions}] are supported"
    return ""
