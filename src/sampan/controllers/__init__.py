"""The control loops of kube-controller-manager (`pkg/controller`, `cmd/kube-controller-manager`).

Each controller watches part of the cluster state and reconciles it with the desired state. It is one module, or a
package if it is large: pure functions that decide, and a thin class with `name`, `watches` and `reconcile` that acts.
`controller_table` lists the controllers and `manager` starts the enabled ones. Controllers import from `sampan.api` and
`sampan.machinery` only.
"""
