"""The controllers of volumes: claims and volumes find each other, and nothing goes while it is in use.

`binder` brings claims and volumes together: `verdicts` decides (pure), `writes`, `provisioning` and `reclaiming` act,
`plugins` is the contract of those who make volumes, `local_path` the one that is built in. `protection` and the files
that begin with it keep what somebody uses from being removed. What claims and volumes mean to each other is in
`sampan.machinery.volumes`.
"""
