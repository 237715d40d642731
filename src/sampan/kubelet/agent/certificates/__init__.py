"""The certificates of a node: the one by which the API server knows it, and the one of its own port.

`asking` has a certificate signed by the cluster; `store` keeps it in files; `manager` asks at first and again in time.
"""

from sampan.kubelet.agent.certificates.manager import CertificateManager, Wanted, client_wanted, serving_wanted
from sampan.kubelet.agent.certificates.store import CertificateStore

__all__ = ["CertificateManager", "CertificateStore", "Wanted", "client_wanted", "serving_wanted"]
