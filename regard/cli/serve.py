"""regard serve: the studio, and an HTTP interface to finished runs."""

import sys
from pathlib import Path

import typer

from regard.cli import options
from regard.cli.requests import print_note
from regard.errors import MissingExtra, SettingError
from regard.interop.engines import engine_named
from regard.tasks.loaded_run import TORCH


def serve(
    run: list[Path] | None = typer.Argument(
        None, help="Runs, also while they train, or records in files."
    ),
    port: int = typer.Option(8000, min=0, max=65535, help="0 takes any that is free."),
    host: str = typer.Option("127.0.0.1", help="Others than this machine may ask elsewhere."),
    opens: bool = typer.Option(False, "--open", help="Show the page in a browser."),
    imports: list[Path] = options.IMPORTS,
    device: options.Device = None,
    threads: options.ThreadCount = None,
    engine: options.Engine = TORCH,
    model: list[str] = typer.Option(
        [], help="Models of transformers, by folder or by name on the hub; may be repeated."
    ),
    record: list[Path] = typer.Option(
        [], help="Records that save_record or save_caption wrote; may be repeated."
    ),
    source: Path | None = typer.Option(None, help="Texts with gold word links, one a line."),
    reference: Path | None = typer.Option(None, help="Their translations."),
    alignment: Path | None = typer.Option(
        None, help="The links between their words, in naacl or Pharaoh format."
    ),
    alignment_format: options.AlignmentFormat = None,
    alignment_first: options.AlignmentFirst = None,
    alignment_swapped: options.AlignmentSwapped = False,
) -> None:
    """Serve runs to a browser: see what they look at and how they learn.

    The page asks nothing of the network; only this machine may ask the server, unless --host says
    otherwise. With --model the studio looks inside models of transformers, of which nothing is run
    as code. /openapi.json describes the interface, /metrics is for Prometheus.

    Example: regard serve demo-run --open
    """
    try:
        from regard.serving.app import build_app
        from regard.serving.gold import read_pairs
        from regard.serving.registry import open_runs
        from regard.serving.server import address_of, bind, run_server, take_one_thread
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"serve: '{error.name}' is not installed: pip install 'regard[serve]'."
        ) from error
    named = [file for file in (source, reference, alignment) if file is not None]
    if len(named) in (1, 2):
        raise SettingError(
            "serve: gold links need all of --source, --reference and --alignment, got "
            f"{len(named)} of the three."
        )
    gold = None
    if named:
        gold = read_pairs(
            *named, kind=alignment_format, first=alignment_first, is_swapped=alignment_swapped
        )
    else:
        options.refuse_without_links(
            "serve", kind=alignment_format, first=alignment_first, is_swapped=alignment_swapped
        )
    if threads is None:
        take_one_thread()
    # before the runs, whose loading takes long
    listening = bind(host, port)
    try:
        registry = open_runs(
            run or [],
            device=device,
            threads=threads,
            engine=engine_named(engine),
            gold=gold,
            saved=record,
            models=model,
        )
        for served in registry.runs.values():
            for note in () if served.trained.engine is None else served.trained.engine.notes:
                print_note(f"{served.name}: {note}")
        names = [*registry.answering, *registry.saved, *registry.saved_captions]
        print(f"serving {', '.join(names)} at {address_of(listening)} (stop with Ctrl-C)")
        sys.stdout.flush()
        run_server(build_app(registry, host=host), listening, opens=opens)
    finally:
        listening.close()
