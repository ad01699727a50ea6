"""words typed in a shell → verbs; one file per verb.

Exit codes: 0 good, 1 failed, 2 the user's mistake, with a message and no traceback,
130 a training that was asked to stop.
"""

import os
import sys
from collections.abc import Sequence

import typer
from rich.console import Console

import regard
from regard.cli.average import average
from regard.cli.bench import bench
from regard.cli.compare import compare
from regard.cli.demo import demo
from regard.cli.doctor import ManyTests, doctor
from regard.cli.evaluate import evaluate
from regard.cli.explain import explain
from regard.cli.export import export
from regard.cli.import_ import import_model
from regard.cli.list import list_mechanisms
from regard.cli.look import look
from regard.cli.plan import plan
from regard.cli.predict import predict
from regard.cli.serve import serve
from regard.cli.streams import lasting_streams
from regard.cli.train import train
from regard.cli.verify import verify
from regard.errors import RegardError
from regard.training.measuring import lacks_memory

app = typer.Typer(
    name="regard",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Attention mechanisms as small interchangeable parts.\n\nTry: regard demo",
)
app.command("demo")(demo)
app.command("list")(list_mechanisms)
app.command("explain")(explain)
app.command("train")(train)
app.command("plan")(plan)
app.command("predict")(predict)
app.command("evaluate")(evaluate)
app.command("compare")(compare)
app.command("average")(average)
app.command("verify")(verify)
app.command("look")(look)
app.command("import")(import_model)
app.command("export")(export)
app.command("serve")(serve)
app.add_typer(bench, name="bench")
app.command("doctor", cls=ManyTests)(doctor)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Say the version and stop."),
) -> None:
    if version:
        print(regard.__version__)
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and give back its exit code."""
    _let_memory_grow()
    with lasting_streams():
        try:
            return _exit_code(argv)
        except RegardError as error:
            Console(stderr=True, highlight=False, soft_wrap=True).print(
                f"regard: {error}", markup=False
            )
            return 2
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            print(
                "regard: there is not enough memory for this. Take smaller sizes, or shorter "
                "texts; `regard plan RECIPE` says what a training takes.",
                file=sys.stderr,
            )
            return 2
        except OSError as error:
            # the system said no (a full disk, a closed file); that is nobody's mistake
            print(f"regard: {error}", file=sys.stderr)
            return 1


def _let_memory_grow() -> None:
    """Where torch's memory on GPUs can grow in place it does, unless somebody chose otherwise.

    Recordings of many shapes take several times as much in segments of fixed sizes.
    """
    if sys.platform == "linux" and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def _exit_code(argv: Sequence[str] | None) -> int:
    try:
        app(args=argv, prog_name="regard", standalone_mode=True)
    except SystemExit as done:
        # a disk without room for what was said shows itself only here
        print(end="", flush=True)
        return int(done.code or 0)
    return 0
