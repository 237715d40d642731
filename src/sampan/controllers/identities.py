"""The service accounts, in kube-system, with which the controllers authenticate to the API server."""

from typing import Final

NAMESPACE: Final = "kube-system"
MANAGER: Final = "system:kube-controller-manager"
"""The user that fills the informer caches shared by all controllers."""

_ACCOUNTS: Final = {
    "bootstrap-signer-controller": "bootstrap-signer",
    "certificatesigningrequest-approving-controller": "certificate-controller",
    "certificatesigningrequest-cleaner-controller": "certificate-controller",
    "certificatesigningrequest-signing-controller": "certificate-controller",
    "cloud-node-lifecycle-controller": "node-controller",
    "daemonset-controller": "daemon-set-controller",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-mirroring-controller": "endpointslicemirroring-controller",
    "garbage-collector-controller": "generic-garbage-collector",
    "horizontal-pod-autoscaler-controller": "horizontal-pod-autoscaler",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": (
        "kube-apiserver-serving-clustertrustbundle-publisher"
    ),
    "legacy-serviceaccount-token-cleaner-controller": "legacy-service-account-token-cleaner",
    "node-ipam-controller": "node-controller",
    "node-lifecycle-controller": "node-controller",
    "node-route-controller": "route-controller",
    "persistentvolume-attach-detach-controller": "attachdetach-controller",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-expander-controller": "expand-controller",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "podcertificaterequest-cleaner-controller": "podcertificaterequestcleaner",
    "replicationcontroller-controller": "replication-controller",
    "resourceclaim-controller": "resource-claim-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "service-cidr-controller": "service-cidrs-controller",
    "service-lb-controller": "service-controller",
    "serviceaccount-controller": "service-account-controller",
    "storageversion-garbage-collector-controller": "storage-version-garbage-collector",
    "taint-eviction-controller": "node-controller",
    "token-cleaner-controller": "token-cleaner",
}


def account_of(controller: str) -> str:
    """Return the service account of a controller: the controller's name, unless Kubernetes uses an older one."""
    return _ACCOUNTS.get(controller, controller)
