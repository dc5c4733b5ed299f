"""Origins of web pages, as configurations name them."""

from __future__ import annotations

import re
from typing import Final

ORIGIN: Final = re.compile(r"https?://[^\s/?#@,;'\"]+", re.ASCII)
"""A scheme and a host, with or without a port: https://www.example.org."""
