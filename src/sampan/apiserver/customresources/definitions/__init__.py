"""Validation of CustomResourceDefinitions.

`versions` validates versions, `validation` names, API approval and conversion, `schemas` the schemas with their
defaults, `structural` their structure, `expressions` their rules. `sampan.apiserver.customresources` serves them.
The counterpart is `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""
