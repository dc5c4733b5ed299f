"""Exact noise from cryptographic bits. No float takes part in any value. Proof:
docs/proofs/noise.md.
"""

from penstock.private.noise.source import Noise, NoNoise, SystemNoise, TestNoise

__all__ = ["NoNoise", "Noise", "SystemNoise", "TestNoise"]
