"""Controllers of volumes: binding, provisioning, attachment, expansion and protection (`pkg/controller/volume`).

`binder` binds claims and volumes: `binding_decisions` decides (pure); `writes` and `provisioner` act; `plugins` is the
interface of volume plugins with the built-in ones. `protection` keeps objects in use from being deleted. The relation
of claims and volumes is defined in `sampan.machinery.volumes`.
"""
