"""The controllers of volumes: claims and volumes find each other, and nothing goes while it is in use.

`binder` brings claims and volumes together: `matching` and `verdicts` decide (pure), `binding` says how objects change,
`writes`, `provisioning` and `reclaiming` act, `plugins` is the contract of those who make volumes, `local_path` the one
that is built in. `protection` and the files that begin with it keep what somebody uses from being removed.
`claims_of_pods` says which claims a pod uses, `words` how objects tell what is between them.
"""
