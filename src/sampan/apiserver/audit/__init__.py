"""Auditing: an event for each stage of the requests that a policy selects.

`policy` decides what is recorded of a request, `auditor` follows one request, `event` is the content of an event. `log`
writes events to a file and `webhook` sends them to a service, both in the background, from a `buffer`. Auditing never
delays a request and never makes one fail: events that cannot be written are counted. The counterparts are
`k8s.io/apiserver/pkg/audit` and `k8s.io/apiserver/plugin/pkg/audit`.
"""

from sampan.apiserver.audit.auditor import PolicyAuditor, RequestAudit
from sampan.apiserver.audit.buffer import AuditBackends
from sampan.apiserver.audit.log import AuditLog, AuditLogFile
from sampan.apiserver.audit.policy import AuditPolicy, read_policy

__all__ = [
    "AuditBackends",
    "AuditLog",
    "AuditLogFile",
    "AuditPolicy",
    "PolicyAuditor",
    "RequestAudit",
    "read_policy",
]
