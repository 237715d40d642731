"""Validation of CustomResourceDefinitions.

`versions` validates versions, `validation` names, API approval, conversion and the root of the schema. Serving is not
done here. The counterpart is `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""
