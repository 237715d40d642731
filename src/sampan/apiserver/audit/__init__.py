"""Who did what: a line of JSON for each stage of the calls that a policy chooses.

`policy` decides what is written of a call, `trail` follows one call, `event` is what a line says, `log` writes lines to
a file beside the calls. Auditing never holds up a call and never makes one fail: what cannot be written is counted.
"""

from sampan.apiserver.audit.auditor import Auditor
from sampan.apiserver.audit.log import AuditLog, LogFile
from sampan.apiserver.audit.policy import Policy, PolicyError, read_policy
from sampan.apiserver.audit.trail import Trail

__all__ = ["AuditLog", "Auditor", "LogFile", "Policy", "PolicyError", "Trail", "read_policy"]
