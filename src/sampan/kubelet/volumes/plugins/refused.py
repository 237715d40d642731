"""Volumes that this kubelet does not support, with the reason."""

from __future__ import annotations

from sampan.kubelet.volumes.contract import PluginBase, Ready, Spec, VolumeFault

_GIT = "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate"


class GitRepo(PluginBase):
    name = "kubernetes.io/git-repo"

    def supports(self, spec: Spec) -> bool:
        return spec.volume.gitRepo is not None

    async def set_up(self, spec: Spec) -> Ready:
        raise VolumeFault(f"{_GIT} `GitRepoVolumeDriver`")

    async def tear_down(self, uid: str, inner: str) -> None:
        return None


def unknown(spec: Spec) -> VolumeFault:
    """Return the error for an unsupported source. In-tree vendor drivers were removed from Kubernetes in favor
    of CSI.
    """
    source = spec.volume if spec.persistent is None else spec.source
    names = [name for name in source.__struct_fields__ if name not in _NO_SOURCES and getattr(source, name) is not None]
    what = f" for {names[0]}: use its CSI driver" if names else ""
    return VolumeFault(f"no volume plugin matched{what}", step="MountVolume.FindPluginBySpec failed")


_NO_SOURCES = {
    *("name", "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName"),
    *("mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"),
}
