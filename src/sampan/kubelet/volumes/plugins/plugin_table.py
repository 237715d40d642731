"""The list of all volume plugins, and the errors for volumes that this kubelet does not support."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.kubelet.volumes.contract import (
    NodeVolumePlugin,
    ReadyVolume,
    VolumeOperationError,
    VolumePluginBase,
    VolumeSpec,
)
from sampan.kubelet.volumes.csi.plugin import CsiPlugin
from sampan.kubelet.volumes.plugins.api_objects import ConfigMapPlugin, DownwardApiPlugin, SecretPlugin
from sampan.kubelet.volumes.plugins.empty_dir import EmptyDirPlugin
from sampan.kubelet.volumes.plugins.host_path import HostPathPlugin
from sampan.kubelet.volumes.plugins.image import ImagePlugin
from sampan.kubelet.volumes.plugins.iscsi import IscsiPlugin
from sampan.kubelet.volumes.plugins.local import LocalPlugin
from sampan.kubelet.volumes.plugins.nfs import NfsPlugin
from sampan.kubelet.volumes.plugins.projected import ProjectedPlugin
from sampan.kubelet.volumes.volume_host import VolumeHost

_GIT = "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate"


class GitRepoPlugin(VolumePluginBase):
    name = "kubernetes.io/git-repo"

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.gitRepo is not None

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        raise VolumeOperationError(f"{_GIT} `GitRepoVolumeDriver`")

    async def tear_down(self, uid: str, inner: str) -> None:
        return None


def make_no_plugin_error(spec: VolumeSpec) -> VolumeOperationError:
    """Return the error for a volume source that is not supported. In-tree vendor drivers were removed from Kubernetes
    in favor of CSI.
    """
    source = spec.volume if spec.persistent is None else spec.source
    names = [name for name in source.__struct_fields__ if name not in _NO_SOURCES and getattr(source, name) is not None]
    plugin_text = f" for {names[0]}: use its CSI driver" if names else ""
    return VolumeOperationError(f"no volume plugin matched{plugin_text}", step="MountVolume.FindPluginBySpec failed")


_NO_SOURCES = {
    *("name", "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName"),
    *("mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"),
}


class VolumePlugins:
    def __init__(self, host: VolumeHost, csi: CsiPlugin) -> None:
        self._all: tuple[NodeVolumePlugin, ...] = (
            ProjectedPlugin(host),
            EmptyDirPlugin(host),
            ConfigMapPlugin(host),
            SecretPlugin(host),
            HostPathPlugin(),
            DownwardApiPlugin(host),
            csi,
            LocalPlugin(host),
            NfsPlugin(host),
            IscsiPlugin(host),
            ImagePlugin(),
            GitRepoPlugin(),
        )
        self._by_name = {plugin.name: plugin for plugin in self._all}

    def find_plugin_by_spec(self, spec: VolumeSpec) -> NodeVolumePlugin:
        """Return the plugin for the volume. Raise VolumeOperationError if there is none."""
        for plugin in self._all:
            if plugin.supports(spec):
                return plugin
        raise make_no_plugin_error(spec)

    def __iter__(self) -> Iterator[NodeVolumePlugin]:
        return iter(self._all)

    def find_plugin_by_name(self, name: str) -> NodeVolumePlugin | None:
        return self._by_name.get(name)
