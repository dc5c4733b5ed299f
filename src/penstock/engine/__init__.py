"""The publisher: what joins sources, runs and sinks, and keeps every unit exactly once."""
