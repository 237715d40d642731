"""Defaults and validation of PersistentVolumes and of the volumes inlined in VolumeAttachments.

Volume sources that pods have as well are in `registry.podspec`, claims in `registry.podspec.claims`. The counterpart is
`ValidatePersistentVolumeSpec` in `pkg/apis/core/validation`.
"""
