"""A request resolved once: source, kernels, launch, facts, machine."""
