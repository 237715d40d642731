"""What happened to a pod and what it waits for, computed from objects, events and records of the flight recorder.

`sampan why`, `sampan trace` and the dashboard show the results. Decisions are pure functions of JSON values
(`pod_timeline`, `missing_parts`, `disruptions`). `DisruptionSource` and `pod_explanation` read objects through a
`ClusterReader`, which the caller implements for its connection. The package uses `sampan.api` only.
"""
