"""runs → an HTTP interface and the studio page, by default for this machine alone.

api.py: answers without HTTP; app.py: routes; server.py: process; guard.py: access; page/: studio.
"""

from regard.serving.app import build_app
from regard.serving.registry import Registry, open_runs

__all__ = ["Registry", "build_app", "open_runs"]
