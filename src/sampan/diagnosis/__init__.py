"""What happened to a pod and what it waits for, computed from objects, events and records of the flight recorder.

`sampan why`, `sampan trace` and the dashboard show it. Decisions are pure functions of values as they are on the wire
(`pod_timeline`, `missing_parts`, `disruptions`); `DisruptionSource` and `pod_explanation` read what they need through a
`ClusterReader`, which the caller implements for its connection. The package uses `sampan.api` only.
"""
