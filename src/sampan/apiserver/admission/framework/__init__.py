"""The machinery of admission, which plug-ins use and run in.

`contract` defines the extension points and `chain` runs the plug-ins in order; `admission_configuration` reads the
configuration of plug-ins, `lookup` finds objects and checks permissions for them. Webhooks and policies share
`predicates` (rules and selectors), `versioned_object` (objects in the version that a rule names), `expressions` (CEL)
and `metrics`. No plug-in belongs here. The counterpart is `k8s.io/apiserver/pkg/admission`.
"""
