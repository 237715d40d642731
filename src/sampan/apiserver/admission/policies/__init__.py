"""Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

`definitions` compiles policies and their bindings, `evaluation` finds the parameters of a binding and evaluates
expressions with their variables, `validation` and `mutation` are the plugins. The counterpart is
`k8s.io/apiserver/pkg/admission/plugin/policy`.
"""

from sampan.apiserver.admission.policies.mutation import MutatingAdmissionPolicyPlugin
from sampan.apiserver.admission.policies.validation import ValidatingAdmissionPolicyPlugin

__all__ = ["MutatingAdmissionPolicyPlugin", "ValidatingAdmissionPolicyPlugin"]
