"""Where events come from: columnar batches, each with the place to go on from."""
