"""Auditing: one line of JSON for each stage of the requests that a policy selects.

`policy` decides what is recorded of a request, `auditor` follows one request, `event` is the content of a line, `log`
writes lines to a file in the background. Auditing never delays a request and never makes one fail: events that cannot
be written are counted. The counterparts are `k8s.io/apiserver/pkg/audit` and `k8s.io/apiserver/plugin/pkg/audit`.
"""

from sampan.apiserver.audit.auditor import Auditor, Trail
from sampan.apiserver.audit.log import AuditLog, LogFile
from sampan.apiserver.audit.policy import Policy, PolicyError, read_policy

__all__ = ["AuditLog", "Auditor", "LogFile", "Policy", "PolicyError", "Trail", "read_policy"]
