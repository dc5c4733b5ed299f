"""Settings for all tests that make up examples.

They make up the same ones in every run, and each may take any time on a busy machine. `make
nightly` makes up new ones.
"""

from hypothesis import settings

settings.register_profile("nightly", deadline=None)
settings.register_profile("penstock", deadline=None, derandomize=True)
settings.load_profile("penstock")
