"""Settings for all tests: on a busy machine an example may take any time."""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
