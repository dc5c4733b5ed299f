"""One file a suite: the questions that a paper asks, and what it found."""
