"""The machinery of admission, which plugins use and run in.

`contract` defines the extension points and `chain` runs the plugins in order; `admission_configuration` reads the
configuration of plugins, `lookup` finds objects and checks permissions for them. Webhooks and policies share
`predicates` (rules and selectors), `versioned_object` (objects in the version that a rule names), `expressions` (CEL)
and `metrics`. No plugin belongs here. The counterpart is `k8s.io/apiserver/pkg/admission`.
"""
