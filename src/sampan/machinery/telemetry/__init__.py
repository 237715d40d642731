"""Observation of a component: metrics, the flight recorder of its recent actions, and the watchdog of its event loop
(`k8s.io/component-base/metrics`, `k8s.io/component-base/tracing`)."""
