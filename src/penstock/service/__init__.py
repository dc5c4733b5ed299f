"""What the public sees: the read API and the dashboard over what is released.

Nothing here imports `penstock.private`: all of it is post-processing.
"""
