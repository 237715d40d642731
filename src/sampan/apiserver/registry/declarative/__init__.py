"""Declarative validation: the validation tags of the API types, run on an object and, for an update, its old state.

The tags are data (`sampan/api/data/validation_tags.json`). `tags` parses them, `compiler` turns those of a type into
rules, once per type, `rules` runs these, and `checks` and `formats` have the validation of single values. The
counterparts are `apimachinery/pkg/api/validate` and the code that validation-gen generates for each API group.
"""

from sampan.apiserver.registry.declarative.compiler import complete_errors

__all__ = ["complete_errors"]
