"""`penstock.connect`: what a read service publishes, in Python, as if the store were here.

Nothing here imports `penstock.private`, and nothing but the standard library talks to the service.
"""
