"""What a pod is, wherever it stands: defaults and validation of pod specs and pod templates, written once.

Pods, pod templates and every workload kind use the same functions: `defaults.default_spec` fills in what a client left
out, `spec.spec_faults` and `template.template_faults` find every fault in the real order, `warnings.warnings_for` says
what is deprecated. The modules below are split by concept (containers, volumes, security, scheduling ...). A check is a
generator of faults that is given the field it stands at as plain text, and makes longer texts only for what is wrong.

Nothing here knows of requests or stores; the rules of the Pod resource itself (subresources, updates, deletion) are in
`registry.kinds.pods` and use `changes`, `resizing` and `statuses` from here.
"""
