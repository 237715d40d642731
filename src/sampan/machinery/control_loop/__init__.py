"""The parts of control loops: the contract of a controller and its runner, the work queue, own writes that a cache does
not show yet, and leader election (`client-go/util/workqueue`, `client-go/tools/leaderelection`)."""
