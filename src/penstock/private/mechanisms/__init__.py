"""The mechanisms, one file each."""
