"""The legacy scheduling policy, translated to a profile of current plug-ins (compare `pkg/scheduler` before v1.23).

`providers` has the algorithm providers (--algorithm-provider), `policy_file` reads files and ConfigMaps
(--policy-config-file), `predicates` and `priorities` map the legacy names to plug-ins. Nothing here takes part in
scheduling.
"""
