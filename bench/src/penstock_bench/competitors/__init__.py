"""What papers compare themselves with, in a form that keeps its promise. For the bench, on
synthetic or public data only.
"""
