"""What workload kinds share: selectors, pod templates, rolling update parameters, status counts and columns.

The pod spec itself is in `registry.podspec`; what is specific to a kind is in its own module. The counterpart is
`pkg/apis/apps/validation`.
"""
