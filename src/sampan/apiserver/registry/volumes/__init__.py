"""Defaults and validation of PersistentVolumes and of the volumes inlined in VolumeAttachments.

Volume sources that pods have as well are in `registry.podspec.volumes.sources`, claims in
`registry.podspec.volumes.volume_claims`. The counterpart is `ValidatePersistentVolumeSpec` in
`pkg/apis/core/validation`.
"""
