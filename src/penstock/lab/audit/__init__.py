"""The auditor: it convicts what is broken and certifies what is not. Synthetic streams only."""
