"""words typed in a shell → verbs; one file per verb.

Exit codes: 0 success, 1 failure, such as a full disk, 2 the user's mistake or too little memory,
both with a message and no traceback, 130 a training that was stopped.
"""

import errno
import os
import sys
from collections.abc import Mapping, Sequence

import typer
from rich.console import Console

import regard
from regard.cli.streams import lasting_streams
from regard.cli.usage_errors import UsageError, as_regard_error, is_help
from regard.cli.verbs import VERBS, VerbGroup, not_loaded
from regard.errors import RegardError

SYSTEM_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: "Make room, or choose another place.",
    errno.EROFS: "Choose another place.",
    errno.EACCES: "Choose another place, or change its permissions.",
    errno.EPERM: "Choose another place, or change its permissions.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}
"""What to do about errors of the system."""

app = typer.Typer(
    name="regard",
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Attention mechanisms as small interchangeable parts.\n\nTry: regard demo",
)
for _name, _summary in VERBS.items():
    app.command(_name, help=_summary)(not_loaded)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Say the version and stop."),
) -> None:
    if version:
        print(regard.__version__)
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and give back its exit code."""
    _set_environment()
    with lasting_streams():
        try:
            return _exit_code(argv)
        except RegardError as error:
            console = Console(stderr=True, highlight=False, soft_wrap=True)
            console.print(f"regard: {error}", markup=False)
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
            # an error of the system (a full disk, a closed file), not a mistake of the user
            print(f"regard: {_system_text(error)}", file=sys.stderr)
            return 1


def _system_text(error: OSError) -> str:
    """An error of the system: the place, the reason, and what to do where that is known."""
    from regard.data.atomic_writes import PARTIAL

    if error.filename is None or error.strerror is None:
        return str(error)
    place = str(error.filename).removesuffix(PARTIAL)
    remedy = SYSTEM_REMEDIES.get(error.errno or 0, "")
    return f"'{place}': {error.strerror.lower()}.{remedy and ' '}{remedy}"


def _set_environment() -> None:
    """Let torch's memory on GPUs grow, and its threads sleep, unless the user chose otherwise.

    Graphs of many shapes take several times as much memory in segments of fixed sizes. Threads that
    wait for each other spin for 300,000 rounds by default: where another program takes a core away,
    every product waits for the thread that does not run. Both are read once, while torch is loaded.
    """
    if sys.platform == "linux" and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _exit_code(argv: Sequence[str] | None) -> int:
    try:
        # not standalone, so that a mistake in the words is told as every other mistake
        code = app(args=argv, prog_name="regard", standalone_mode=False)
    except SystemExit as done:
        code = done.code
    except typer.Abort:
        # typer's word for an input that ended
        print("regard: the input ended before it was whole. Give it again.", file=sys.stderr)
        return 1
    except UsageError as error:
        if is_help(error):
            print(error, file=sys.stderr)
            return 2
        raise as_regard_error(error, sys.argv[1:] if argv is None else argv) from error
    # printed text reaches the disk only here, where a full disk raises
    print(end="", flush=True)
    return code if isinstance(code, int) else 0
