"""The measures that are taken of a line. See `registry`."""
