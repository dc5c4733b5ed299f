"""Counting on Spark, releasing here.

Spark reads, bounds and counts. One publisher draws the noise and commits. Noise, state and places
in sources never are in Spark. `penstock run pipeline.toml --engine spark` publishes; `count` counts
a data frame that is there already.
"""

from penstock.engine.spark.frames import BoundedCounts, count

__all__ = ["BoundedCounts", "count"]
