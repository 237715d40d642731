"""What a node and its pods use: `machine` reads the kernel's figures, `collector` asks the runtime and keeps the
answers for a moment; `summary` is the form of /stats/summary, `texts` are those for Prometheus, `cadvisor` is
cAdvisor's. The last three are pure."""
