"""Client and serving certificates of a node (`pkg/kubelet/certificate`).

`asking` requests a certificate from the cluster; `store` keeps it in files; `manager` requests the first one and
rotates it in time.
"""

from sampan.kubelet.agent.certificates.manager import CertificateManager, Wanted, client_wanted, serving_wanted
from sampan.kubelet.agent.certificates.store import CertificateStore

__all__ = ["CertificateManager", "CertificateStore", "Wanted", "client_wanted", "serving_wanted"]
