"""statefulset-controller, which manages pods with stable names, ordinals and claims (`pkg/controller/statefulset`).

`identity` defines the identity of a pod, `volume_claims` its claims and their retention, `replica_plan` the next action
and the status, and `revisions` the templates. `members` acts on single pods, and `controller` does the rest.
"""
