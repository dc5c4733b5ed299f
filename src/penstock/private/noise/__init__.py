"""Exact noise from cryptographic bits, without floats. Proof: docs/proofs/noise.md."""

from penstock.private.noise.source import Noise, NoNoise, SystemNoise, TestNoise

__all__ = ["NoNoise", "Noise", "SystemNoise", "TestNoise"]
