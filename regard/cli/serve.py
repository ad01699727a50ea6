"""regard serve: the studio, and an HTTP interface to finished runs."""

import sys
from pathlib import Path

import typer

from regard.cli import options
from regard.cli.requests import print_note
from regard.errors import MissingExtra, SettingError
from regard.interop.engines import engine_named
from regard.runs.trained import load
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
    token: list[str] = typer.Option(
        [], envvar="REGARD_TOKEN", help="What clients must know; may be repeated."
    ),
    insecure: bool = typer.Option(
        False, "--insecure", help="Let other machines ask without a token."
    ),
    allow_host: list[str] = typer.Option(
        [], help="Another name by which clients reach it, such as a proxy's; may be repeated."
    ),
    rate: float | None = typer.Option(
        None, min=0.1, help="Requests a second for each token or address; then 429."
    ),
    certificate: Path | None = typer.Option(None, help="Speak TLS by this chain, in PEM."),
    key: Path | None = typer.Option(None, help="The certificate's key, if not in its file."),
    log: bool = typer.Option(
        False, "--log", help="A line of JSON for each request, without texts."
    ),
    log_text: bool = typer.Option(False, "--log-text", help="The same, with the texts."),
    workers: int = typer.Option(
        1, min=1, max=64, help="Processes that answer /v1 for each run; one for each GPU."
    ),
    max_waiting: int = typer.Option(512, min=1, help="Texts that may wait for a run; then 429."),
    max_waiting_tokens: int = typer.Option(200_000, min=1, help="Their tokens; then 429."),
    batch_wait: float = typer.Option(
        5.0, min=0, max=1000, help="Milliseconds that a batch waits for more texts."
    ),
    timeout: float = typer.Option(
        60.0, min=0.1, max=600, help="Seconds for a request to /v1 that states none; then 504."
    ),
    step_timeout: float = typer.Option(
        60.0, min=1, help="Seconds without a sign of life after which a worker is replaced."
    ),
    drain_timeout: float = typer.Option(
        30.0, min=0, help="Seconds for what was taken, after SIGTERM or Ctrl-C; then 503."
    ),
) -> None:
    """Serve runs to people and programs: the studio, and an API with queues and bounds.

    The page asks nothing of the network; only this machine may ask the server, unless --host says
    otherwise. POST /v1/predict answers texts and pictures, together with those of other clients;
    /docs describes the interface, /metrics is for Prometheus, /health/ready for a load balancer.
    With --model the studio looks inside models of transformers, of which nothing is run as code.

    SIGTERM and Ctrl-C answer what was taken and then end; a second one ends at once. SIGHUP loads
    all runs again, and the old ones answer until the new ones are ready.

    Example: regard serve demo-run --open
    """
    try:
        from regard.serving.access import Access, check_host
        from regard.serving.app import build_app
        from regard.serving.gold import read_pairs
        from regard.serving.registry import open_runs
        from regard.serving.run_service import ServiceSettings
        from regard.serving.server import (
            Lifecycle,
            TlsFiles,
            address_of,
            bind,
            run_server,
            take_one_thread,
        )
        from regard.serving.services import open_services
        from regard.serving.telemetry import RequestLog
        from regard.serving.worker_process import launcher
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
    guarding = Access(token, rate)
    tls = None if certificate is None else TlsFiles(certificate, key)
    if tls is not None:
        tls.check()
    elif key is not None:
        raise SettingError("serve: --key is the key of a certificate. Add --certificate.")
    if threads is None:
        take_one_thread()
    # before the runs, whose loading takes long
    listening = bind(host, port)
    try:
        check_host(host, token, is_insecure=insecure)
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
        settings = ServiceSettings(
            max_waiting, max_waiting_tokens, batch_wait / 1000, step_timeout, n_workers=workers
        )
        n_workers = max(1, workers * len(registry.runs))
        launch = launcher(
            device=device, engine=engine, imports=imports, n_workers=n_workers, threads=threads
        )
        services = open_services(registry, launch, settings, timeout_ms=round(1000 * timeout))
        life = Lifecycle(
            services,
            drain_timeout,
            lambda served: load(served.trained.path, device=device, engine=engine_named(engine)),
        )
        names = [*registry.names, *registry.saved, *registry.saved_captions]
        address = address_of(listening, "http" if tls is None else "https")
        print(f"serving {', '.join(names)} at {address} (stop with Ctrl-C)")
        sys.stdout.flush()
        app = build_app(
            registry, host=host, allowed_hosts=allow_host, services=services, access=guarding,
            log=RequestLog(sys.stderr.write if log or log_text else None, has_texts=log_text),
        )  # fmt: skip
        run_server(app, listening, opens=opens, life=life, tls=tls)
    finally:
        listening.close()
