"""docs/serving.md: its Python is Python, its options exist, its manifests probe what is there."""

import re
from pathlib import Path

import typer
import yaml

from regard.cli.serve import serve
from regard.client import Client
from regard.serving.v1 import openapi_of_v1

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()


def _blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_its_python_is_python():
    for block in _blocks("python"):
        compile(block, "serving.md", "exec")
    assert callable(Client.stream)


def test_every_option_that_it_names_exists():
    app = typer.Typer()
    app.command()(serve)
    command = typer.main.get_command(app)
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    prose = re.sub(r"```(python|nginx|caddyfile|js)\n.*?```", "", PAGE, flags=re.DOTALL)
    prose = prose.split("## How fast")[0]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", prose))
    others = {"--data-binary"}
    assert named - known - others == set()


def test_its_manifests_ask_for_the_readiness_of_the_server():
    (block,) = _blocks("yaml")
    deployment, service = yaml.safe_load_all(block)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = set(openapi_of_v1()["paths"])
    probes = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert probes["readinessProbe"]["path"] == "/health/ready"
    assert probes["livenessProbe"]["path"] == "/health/live"
    assert {one["path"] for one in probes.values()} <= paths
    ports = {one["containerPort"] for one in container["ports"]}
    assert {one["port"] for one in probes.values()} == ports
    assert {one["targetPort"] for one in service["spec"]["ports"]} == ports
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > sleep + 30
    assert container["command"][:2] == ["regard", "serve"]


def test_every_field_of_a_request_is_in_its_table():
    form = openapi_of_v1()["components"]["schemas"]["PredictionRequest"]["properties"]
    table = PAGE.split("### What may be sent")[1].split("### What comes back")[0]
    assert {name for name in form if f"`{name}`" not in table} == set()
