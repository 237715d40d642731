"""The list of all volume plug-ins."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.kubelet.volumes.contract import Plugin, Spec
from sampan.kubelet.volumes.csi.plugin import Csi
from sampan.kubelet.volumes.host import Host
from sampan.kubelet.volumes.plugins.config_map import ConfigMaps
from sampan.kubelet.volumes.plugins.downward_api import DownwardApi
from sampan.kubelet.volumes.plugins.empty_dir import EmptyDir
from sampan.kubelet.volumes.plugins.host_path import HostPath
from sampan.kubelet.volumes.plugins.image import Image
from sampan.kubelet.volumes.plugins.iscsi import Iscsi
from sampan.kubelet.volumes.plugins.local import Local
from sampan.kubelet.volumes.plugins.nfs import Nfs
from sampan.kubelet.volumes.plugins.projected import Projected
from sampan.kubelet.volumes.plugins.refused import GitRepo, unknown
from sampan.kubelet.volumes.plugins.secret import Secrets


class Plugins:
    def __init__(self, host: Host, csi: Csi) -> None:
        self._all: tuple[Plugin, ...] = (
            Projected(host),
            EmptyDir(host),
            ConfigMaps(host),
            Secrets(host),
            HostPath(),
            DownwardApi(host),
            csi,
            Local(host),
            Nfs(host),
            Iscsi(host),
            Image(),
            GitRepo(),
        )
        self._by_name = {plugin.name: plugin for plugin in self._all}

    def of(self, spec: Spec) -> Plugin:
        """Return the plug-in for the volume. Raise VolumeFault if there is none."""
        for plugin in self._all:
            if plugin.supports(spec):
                return plugin
        raise unknown(spec)

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self._all)

    def named(self, name: str) -> Plugin | None:
        return self._by_name.get(name)
