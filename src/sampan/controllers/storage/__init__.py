"""Controllers of volumes: binding, provisioning, attachment, expansion and protection (`pkg/controller/volume`).

`binder` binds claims and volumes: `verdicts` decides (pure); `writes`, `provisioning` and `reclaiming` act; `plugins`
is the interface of volume plug-ins and `local_path` the built-in provisioner. `protection` and the modules named after
it keep objects in use from being deleted. The relation of claims and volumes is defined in `sampan.machinery.volumes`.
"""
