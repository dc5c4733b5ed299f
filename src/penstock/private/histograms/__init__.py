"""Methods to release the counts of one unit, one per file."""
