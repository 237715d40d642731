"""The relations between persistent volume claims, volumes and storage classes, shared by the persistent volume
controller, the scheduler and the kubelet.

Pure functions over API objects belong here: the class of a claim, the volume that matches a claim, the changes of
binding, the claims that a pod uses. Components decide when to act on the results. The Kubernetes counterpart is
`k8s.io/component-helpers/storage/volume`.
"""
