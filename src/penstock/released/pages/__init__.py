"""Pages: one HTML file each, from templates that share one base, one stylesheet, one chart module.

`render` fills a template, `asset` gives a stylesheet or script for a server to hand out, and
`penstock.released.pages.chart` draws numbers over time.
"""

from penstock.released.pages.render import asset, render

__all__ = ["asset", "render"]
