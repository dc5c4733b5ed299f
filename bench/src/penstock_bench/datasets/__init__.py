"""The datasets of the bench: one small class each, from files, from a package, or generated."""
