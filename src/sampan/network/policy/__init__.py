"""Network policies of one node, enforced by nftables: the part of a network plugin that implements NetworkPolicy.

Its counterpart is a policy engine such as kube-network-policies. The pure part is `ranges` (CIDRs with exceptions, port
ranges), `policy_spec` (what a NetworkPolicy allows), `pods` (what policies see of a pod), `pod_sets` (addresses of
selected pods), `policy_table` (the desired nftables table and its changes as text) and `compiler`, which keeps the
table current as objects change. `enforcer` commits the changes and audits the table; `agent` feeds it from informers
and implements `sampan.runtimes.network.PodIsolation`, which is called before a pod gets a packet through.
"""

from sampan.network.policy.agent import NetworkPolicyAgent
from sampan.network.policy.compiler import PolicyConfig

__all__ = ["NetworkPolicyAgent", "PolicyConfig"]
