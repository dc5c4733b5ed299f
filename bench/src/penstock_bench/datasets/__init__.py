"""The streams of the bench: one small class a stream, found in the folder of data, in a package, or
generated.
"""
