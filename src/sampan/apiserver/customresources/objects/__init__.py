"""The behavior of custom resources: what their strategy, validation, subresources and conversion add to the store.

`strategy` has the strategies, `custom_schema` a schema that is compiled on first use to `schema_validator` (with
`value_checks` and `formats`) and `rules`. `stored_versions` and `conversion_webhook` convert between the storage
version and the version of a path. Nothing here depends on a CustomResourceDefinition as an object:
`sampan.apiserver.customresources` reads it and declares the resources. The counterpart is
`k8s.io/apiextensions-apiserver/pkg/registry/customresource`.
"""
