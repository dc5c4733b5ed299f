"""The commands that the bench adds to `penstock`."""
