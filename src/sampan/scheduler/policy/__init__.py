"""The classic policy: predicates and priorities by their old names, turned into a profile of today's plug-ins.

`providers` has the named ones (--algorithm-provider), `policy_file` reads files and ConfigMaps (--policy-config-file),
`predicates` and `priorities` say which plug-in does what a name meant. Nothing here decides anything.
"""
