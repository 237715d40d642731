"""Admission: plugins that may change or reject an object after it was decoded and before it is stored, one file each.

`framework` defines the extension points and runs the plugins in order, `plugins` is the table of all plugins. The
counterparts are `k8s.io/apiserver/pkg/admission` and `plugin/pkg/admission`.
"""
