"""Volumes in pod specs: `defaults` sets default values; `validation`, with `sources`, `projected` and `volume_claims`,
yields errors; `path_overlaps` yields warnings. `projected` also has the volume with the token of the pod's service
account."""
