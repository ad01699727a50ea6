"""regard bench: time and memory, as ratios to peers measured in the same run."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import typer
from rich.console import Console

from regard.bench import cases
from regard.bench.attention_report import attention_report, attention_text
from regard.bench.bridge import (
    CONTESTANTS,
    MODELS,
    bridge_report,
    bridge_text,
    measure_pass,
    model_named,
)
from regard.bench.contests import CONTESTS, ContestSettings
from regard.bench.decoding import DecodingCase, bench_decoding, decoding_text
from regard.bench.environment import environment, versions
from regard.bench.measure import Measured, free_memory, measure
from regard.bench.run_decoding import PEER, RunCase, bench_run, run_decoding_text
from regard.bench.training_report import training_text
from regard.choices import find
from regard.cli.options import Device, ThreadCount, refuse
from regard.errors import SettingError
from regard.hardware.hardware import Hardware
from regard.models import SIZES
from regard.progress import counting, progress_line

LENGTHS = "128,512,2048,4096,8192"

bench = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Measure time and memory, as ratios to peers measured in the same run.\n\n"
    "Example: regard bench attention --lengths 4096,8192 --only soft,sliding_window",
)


@bench.command("attention")
def attention(
    lengths: str = typer.Option(LENGTHS, help="Sequence lengths, separated by commas."),
    only: str | None = typer.Option(None, help="Only these mechanisms, separated by commas."),
    device: Device = None,
    threads: ThreadCount = None,
    out: Path | None = typer.Option(None, help="Write the results to this file as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
) -> None:
    """Measure mechanisms beside dense softmax(QKᵀ)V and torch's SDPA in the same run.

    On the CPU batch 1, 8 heads of 64, float32, each case in a process of its own; on a GPU 32,768
    tokens, 16 heads of 64, bfloat16, beside compiled flex_attention where that can express the
    chain. Each result is checked against the dense chain first.

    Example: regard bench attention --lengths 4096,8192 --only soft,sliding_window,big_bird
    """
    sizes, known = _lengths(lengths), cases.names()
    chosen = known if only is None else [*cases.PEERS, *_named("--only", only, known)]
    chosen = list(dict.fromkeys(chosen))
    kind = Hardware.chosen(device, None, threads=threads).device.type
    scale = find(kind, cases.SCALES, key="bench attention: --device")
    memory, n_threads = free_memory(), threads or torch.get_num_threads()
    results: dict[int, dict[str, Measured]] = {n: {} for n in sizes}
    with counting("measuring", len(results) * len(chosen)) as each:
        for n, row in results.items():
            for name in chosen:
                row[name] = measure(name, n, scale, memory_bytes=memory, threads=n_threads)
                each()
    report = attention_report(results, n_threads, scale)
    _give(report, attention_text(report), out, as_json=as_json)
    if any(m.is_wrong for row in results.values() for m in row.values()):
        raise typer.Exit(1)


@bench.command("bridge")
def bridge(
    lengths: str = typer.Option("1024,4096,16384", help="Text lengths, separated by commas."),
    model: str = typer.Option("llama", help=f"Which model runs: {', '.join(MODELS)}."),
    threads: ThreadCount = None,
    out: Path | None = typer.Option(None, help="Write the results to this file as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
) -> None:
    """Measure a forward pass of a model of transformers on our chains, with and without a capture.

    Beside it the same model in eager mode and with torch's SDPA. Outputs are compared with eager's
    first, and of a capture the weights. Each case runs in a process of its own, on the CPU.

    Example: regard bench bridge --lengths 1024,4096 --model bert
    """
    find(model, MODELS, key="bench bridge: --model")
    sizes, memory, n_threads = _lengths(lengths), free_memory(), threads or torch.get_num_threads()
    # tells a missing package before anything is measured
    model_named(model, 1)
    passes = []
    with counting("measuring", len(sizes) * len(CONTESTANTS)) as each:
        for n in sizes:
            for name in CONTESTANTS:
                passes.append(measure_pass(model, name, n, memory_bytes=memory, threads=n_threads))
                each()
    report = bridge_report(model, passes, n_threads)
    _give(report, bridge_text(report), out, as_json=as_json)
    if any(one.is_wrong for one in passes):
        raise typer.Exit(1)


@bench.command("train")
def train(
    model: str = typer.Option("transformer", help="Which model is raced: transformer, recurrent."),
    device: Device = None,
    threads: ThreadCount = None,
    data: Path | None = typer.Option(
        None, help="A folder with Multi30k's train.en.gz and train.de.gz."
    ),
    peers: str | None = typer.Option(
        None,
        help="Only these, separated by commas: joeynmt (its own batches), joeynmt_same_batches "
        "(ours), marian (Transformers). Or none.",
    ),
    seconds: float = typer.Option(120.0, min=0.0, help="How long to go on measuring in turns."),
    joeynmt_python: Path | None = typer.Option(
        None, help="An interpreter that has joeynmt; this one unless given."
    ),
    out: Path | None = typer.Option(None, help="Write the results to this file as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure whole updates, beside other toolkits on the same sentences.

    Each contestant is a process of its own and runs a few updates in turn on Multi30k
    English-German; ratios are medians over the rounds. The Transformer: width 256, 3 + 3 layers,
    batches of 4096 target tokens, on the CPU; on a GPU the base size in bfloat16 on full batches,
    one contestant after another, then on Multi30k if --data is given. The recurrent model: 2 + 2
    LSTM layers of 512, general score, input feeding, batches of 1024 target tokens on the CPU and
    of 4096 on a GPU, there in bfloat16 (Joey NMT in float16).

    Example: regard bench train --model recurrent --data data/multi30k --peers joeynmt
    """
    hardware = Hardware.chosen(device, None, threads=threads)
    contests = find(model, CONTESTS, key="bench train: --model")
    contest = find(hardware.device.type, contests, key="bench train: --device")
    chosen = _peers(peers, list(contest.peers))
    device_used, n_threads = hardware.device, threads or torch.get_num_threads()
    with _measuring() as show_share:
        settings = ContestSettings(
            data, device_used, chosen, seconds, n_threads, joeynmt_python, show_share
        )
        report = contest.report(settings)
    _give(report, training_text(report), out, as_json=as_json)
    if any(row["problem"] for row in report["rows"]):
        raise typer.Exit(1)


@bench.command("decode")
def decode(
    device: Device = None,
    threads: ThreadCount = None,
    run: Path | None = typer.Option(
        None, help="Measure this run, on texts with their own ends, in place of random weights."
    ),
    texts: Path | None = typer.Option(
        None, help="For --run: a file of texts; the run's test split unless given."
    ),
    sentences: int | None = typer.Option(
        None, min=1, help="How many sentences; 64, and of --run at most 1,000, unless given."
    ),
    batch: int | None = typer.Option(
        None, min=1, help="How many are answered at a time; 64 unless given. Not for --run."
    ),
    length: int | None = typer.Option(
        None, min=2, help="Tokens of sources and answers; 24 unless given. Not for --run."
    ),
    beam: int | None = typer.Option(
        None, min=1, help="Width of the beam; 4, and of --run 5, unless given."
    ),
    size: str | None = typer.Option(
        None, help="Size of the model with random weights; base unless given. Not for --run."
    ),
    peers: str | None = typer.Option(
        None, help="Only these, separated by commas: huggingface, ctranslate2 (CPU). Or none."
    ),
    turns: int = typer.Option(5, min=1, help="How often each takes its turn."),
    out: Path | None = typer.Option(None, help="Write the results to this file as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure `predict` beside Hugging Face's generate and CTranslate2 on the same weights.

    Without --run, weights are random: logits are compared first, and all write answers of one
    length, in turns, each in a process of its own; ratios are medians over the turns, and answers
    are scored by the model itself.

    With --run, a run answers its test texts as users have it answer, beside the same with --engine
    ctranslate2 and beside CTranslate2 by itself, in turns in one process.

    Example: regard bench decode --run demo-run --threads 1
    """
    hardware = Hardware.chosen(device, None, threads=threads)
    is_gpu = hardware.device.type == "cuda"
    if run is not None:
        given = {"--batch": batch, "--length": length, "--size": size}
        refuse("bench decode", "--run measures a run on texts with their own ends", given)
        known = [] if is_gpu else [PEER]
        own = RunCase(
            run=run,
            texts=texts,
            n_texts=sentences or RunCase.n_texts,
            beam=beam or RunCase.beam,
            device=hardware.device.type,
            threads=hardware.threads.count if hardware.threads else None,
            turns=turns,
            peers=_peers(peers, known),
        )
        with _measuring() as show_share:
            found = bench_run(own, each_turn=show_share)
        packages = {"packages": versions(["ctranslate2"])}
        report = {**environment(hardware.device), **packages, **found.as_dict()}
        _give(report, run_decoding_text(found), out, as_json=as_json)
        return
    if texts is not None:
        raise SettingError("bench decode: --texts are for a run. Add --run, or leave them out.")
    known = ["huggingface"] if is_gpu else ["huggingface", "ctranslate2"]
    find(size or DecodingCase.size, SIZES, key="bench decode: --size")
    case = DecodingCase(
        n_sentences=sentences or DecodingCase.n_sentences,
        batch=batch or DecodingCase.batch,
        n_source=length or DecodingCase.n_source,
        n_target=length or DecodingCase.n_target,
        beam=beam or DecodingCase.beam,
        size=size or DecodingCase.size,
        device=hardware.device.type,
        dtype="bfloat16" if is_gpu else "float32",
        turns=turns,
        peers=_peers(peers, known),
        threads=threads or torch.get_num_threads(),
    )
    with _measuring() as show_share:
        result = bench_decoding(case, each_turn=show_share)
    report = {
        **environment(hardware.device),
        "packages": versions(["transformers", "ctranslate2"]),
        **result.as_dict(),
    }
    _give(report, decoding_text(result), out, as_json=as_json)


@contextmanager
def _measuring() -> Iterator[Callable[[float], None]]:
    """A function to call with the share of the work that is done; a bar shows it."""
    with progress_line(Console(stderr=True)) as bar:
        task = bar.add_task("measuring", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _give(report: dict[str, object], text: str, out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report) if as_json else text)


def _lengths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise SettingError(
            f"bench: --lengths takes whole numbers separated by commas, got '{text}'."
        )
    return [int(part) for part in parts]


def _peers(text: str | None, known: list[str]) -> list[str]:
    """The chosen ones, or all where none were chosen; "none" chooses none."""
    if text is None:
        return known
    return [] if text == "none" else _named("--peers", text, known)


def _named(option: str, text: str, known: list[str]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        find(name, dict.fromkeys(known), key=f"bench: {option}")
    return list(dict.fromkeys(names))
