"""Definitions of custom resources as objects: names, versions, conversion, and what of a schema can be judged alone.

`hoisting` is how the real server sees a definition whose versions are alike, `versions` the faults of versions,
`naming` of names and approval, `conversions` of conversion, `schemas` of a schema's root. Nothing here serves anything.
"""
