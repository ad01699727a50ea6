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
from regard.cli.streams import lasting_streams
from regard.cli.verbs import VERBS, VerbGroup, not_loaded
from regard.errors import RegardError

app = typer.Typer(
    name="regard",
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Attention mechanisms as small interchangeable parts.\n\nTry: regard demo",
)
for _name, _verb in VERBS.items():
    app.command(_name, help=_verb.summary)(not_loaded)


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
    _let_threads_sleep()
    with lasting_streams():
        try:
            return _exit_code(argv)
        except RegardError as error:
            Console(stderr=True, highlight=False, soft_wrap=True).print(
                f"regard: {error}", markup=False
            )
            return 2
        except (RuntimeError, MemoryError) as error:
            from regard.hardware.memory import lacks_memory

            if not lacks_memory(error):
                raise
            print(
                "regard: there is not enough memory for this. Take smaller sizes, or shorter "
                "texts; `regard plan RECIPE` says what a training takes.",
                file=sys.stderr,
            )
            return 2
        except OSError as error:
            # the system refused (a full disk, a closed file): not a mistake of the user
            print(f"regard: {error}", file=sys.stderr)
            return 1


def _let_memory_grow() -> None:
    """Let torch's memory on GPUs grow in place, unless the user chose otherwise.

    Graphs of many shapes take several times as much memory in segments of fixed sizes.
    """
    if sys.platform == "linux" and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def _let_threads_sleep() -> None:
    """Have threads that wait for each other spin briefly, unless the user chose otherwise.

    They spin for 300,000 rounds by default: where another program takes a core away, every product
    waits for the thread that does not run. Read once, while torch is loaded.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _exit_code(argv: Sequence[str] | None) -> int:
    try:
        app(args=argv, prog_name="regard", standalone_mode=True)
    except SystemExit as done:
        # a disk without room for what was said shows itself only here
        print(end="", flush=True)
        return int(done.code or 0)
    return 0
