"""What is measured of a line. See `registry`."""
