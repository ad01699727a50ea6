"""runs → an HTTP interface and the studio page, for the machine they stand on.

api.py has pure functions, app.py the routes, guard.py who may ask, page/ what a browser loads.
"""

from regard.serving.app import build_app
from regard.serving.registry import Registry, open_runs

__all__ = ["Registry", "build_app", "open_runs"]
