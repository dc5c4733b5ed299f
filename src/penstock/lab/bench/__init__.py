"""The bench: the papers' experiments as named suites, every mechanism at the same guarantee."""
