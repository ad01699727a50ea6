"""runs → an API for programs and a studio for people, by default for this machine alone.

The API: v1.py has the routes, services.py follows a request, run_service.py has queue and workers,
worker.py is the model's process, prediction_schemas.py types what is sent.
The studio: app.py has the routes, api.py and others answer without HTTP, page/ holds its files.
Both: server.py runs the process, guard.py and access.py say who may ask, telemetry.py counts.
"""

from regard.serving.app import build_app
from regard.serving.registry import Registry, open_runs

__all__ = ["Registry", "build_app", "open_runs"]
