"""One file per suite: the questions of a paper and its findings."""
