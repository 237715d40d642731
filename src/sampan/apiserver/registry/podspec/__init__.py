"""Defaulting and validation of pod specs and pod templates, shared by pods and every workload kind.

`defaults.default_spec` sets default values, `spec.validate_pod_spec` and `spec.validate_pod_template_spec` yield all
errors in the order of kube-apiserver, `warnings.warnings_for` yields the warnings. The modules are split by concept
(containers, volumes, security, scheduling ...). A check is a generator of errors that takes the path of its field as
plain text and builds longer paths only for what is wrong. The counterparts are `pkg/apis/core/v1/defaults.go`,
`pkg/apis/core/validation` and `pkg/api/pod`.

The package does not depend on requests or stores. The behavior of the Pod resource (subresources, updates, deletion) is
in `registry.kinds.pods`, which uses `pod_update`, `pod_resize` and `pod_status` of this package.
"""
