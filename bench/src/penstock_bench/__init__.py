"""The bench: experiments of the papers, datasets, competitors and simulated streams.

Data are synthetic or public. The package adds `penstock bench` and `penstock lab city` to the
command line of Penstock.
"""

__version__ = "0.1.0.dev0"
