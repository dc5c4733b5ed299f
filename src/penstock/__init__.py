"""Penstock: the gate through which a stream of events about people becomes numbers that anyone may see."""

__version__ = "0.1.0.dev0"
