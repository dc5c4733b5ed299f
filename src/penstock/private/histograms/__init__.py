"""Ways to release one unit's histogram, each in one file: a part of every mechanism that publishes
whole units.
"""
