"""The resolution of requests: source, kernels, launch, facts, machine."""
