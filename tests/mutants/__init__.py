"""Faults that are planted in copies of the source, to measure how good the auditor is."""
