"""The parts of the bounding audit: streams of events, sources of every format, and the checks."""
