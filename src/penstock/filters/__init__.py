"""Filters over releases: pure functions of released numbers and public settings.

They read no raw data, so nothing in here can change a promise. `TideFilter` puts the parts
together: a common factor of all keys, several models per key, a season per key, and the length of
each key's next block.
"""
