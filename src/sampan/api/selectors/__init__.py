"""Label and field selectors: their text and object forms, validation and matching (`k8s.io/apimachinery/pkg/labels`,
`pkg/fields`).
"""
