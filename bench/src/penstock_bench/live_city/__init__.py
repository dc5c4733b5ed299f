"""A simulated city that is published live, while its publisher is killed and restarted."""
