"""Validation of CustomResourceDefinitions: names, versions, conversion, and the root of the schema.

`hoisting` represents identical versions as kube-apiserver does, `versions` validates versions, `naming` names and API
approval, `conversions` conversion, `schemas` the root of a schema. Serving is not done here. The counterpart is
`k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""
