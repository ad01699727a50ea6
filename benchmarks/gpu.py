"""Every path on a CUDA device: equal to float64 on the CPU, and timed beside torch's SDPA.

    python benchmarks/gpu.py

Correctness comes first: outputs and gradients by name, odd sizes, padding, in bfloat16 at most
twice as far off as the dense chain in bfloat16, and below 1e-4 in float32; each chain by the path
that is meant for it, since a kernel that fails is passed over; padding takes hardly any memory.
Then forward and backward of 32,768 tokens in 16 heads of 64, with the host's part, and the memory
beside the inputs.
"""

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard import Chain, Dims
from regard.attention import engine, padding
from regard.attention.masks import FULL
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.data.subword_kinds import EOS
from regard.decoding.token_scores import best_next
from regard.places import Places
from regard.training.losses import token_loss

CAUSAL = CausalPattern()


def chains(n_heads: int) -> dict[str, tuple[Chain, str]]:
    """Chains over heads of 64, with the path that long rows of each take."""
    dims = Dims(d_model=64 * n_heads, n_heads=n_heads, max_len=16_384).head()
    window = SlidingWindowPattern(size=256)
    return {
        "soft": (Chain(), "fused"),
        "causal": (Chain(pattern=CAUSAL), "fused"),
        "shaw": (Chain(relation=ShawRelation(dims)), "joined"),
        "causal shaw": (Chain(relation=ShawRelation(dims), pattern=CAUSAL), "joined"),
        "shaw in a window": (Chain(relation=ShawRelation(dims), pattern=window), "sparse"),
        "bucketed": (Chain(relation=BucketedRelation(dims)), "joined"),
        "causal bucketed": (Chain(relation=BucketedRelation(dims), pattern=CAUSAL), "joined"),
        "linear_bias": (Chain(relation=LinearBiasRelation(dims)), "joined"),
        "causal linear_bias": (Chain(relation=LinearBiasRelation(dims), pattern=CAUSAL), "joined"),
        "sliding_window": (Chain(pattern=window), "sparse"),
        "big_bird": (Chain(pattern=BigBirdPattern(block=64)), "sparse"),
        "causal big_bird": (Chain(pattern=BigBirdPattern(block=16, is_causal=True)), "sparse"),
        "sparsemax": (Chain(select=SparsemaxSelection()), "thresholded"),
        "top_k": (Chain(select=TopKSelection(count=32)), "thresholded"),
        "local_monotonic": (Chain(select=LocalMonotonicSelection()), "windowed"),
        "local_predictive": (Chain(select=LocalPredictiveSelection(dims)), "windowed"),
        "additive": (Chain(AdditiveScore(dims)), "streamed"),
        "concat": (Chain(ConcatScore(dims)), "streamed"),
        "linformer": (Chain(memory=LinformerMemory(dims)), "short"),
        "memory_compressed": (
            Chain(memory=MemoryCompressedMemory(dims), pattern=CAUSAL),
            "short",
        ),
    }


def error(got: Tensor, want: Tensor) -> float:
    # a gradient that is exactly zero has no relative error
    return float(
        (got.detach().double().cpu() - want.detach().cpu()).norm() / want.norm().clamp(min=1.0)
    )


def _worst(got: list[Tensor], want: list[Tensor]) -> float:
    return max(error(g, w) for g, w in zip(got, want, strict=True))


def run(chain: Chain, tensors: list[Tensor], lengths: Tensor) -> dict[str, Tensor]:
    """The context, and the gradients of inputs and parameters, by name."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    named = dict(zip(("query", "key", "value"), leaves, strict=True))
    named |= {name: p for name, p in chain.named_parameters() if p.requires_grad}
    device = leaves[0].device
    context = chain(*leaves, padding(lengths.to(device), leaves[1].shape[-2])).context
    weights = torch.linspace(0.5, 1.5, context.shape[-1], dtype=context.dtype, device=device)
    found = torch.autograd.grad(
        (context * weights).sum(), list(named.values()), materialize_grads=True
    )
    return {"context": context, **dict(zip(named, found, strict=True))}


def path_of(chain: Chain, n: int, device: str, dtype: torch.dtype) -> str:
    """The path that a chain takes over n queries and keys."""
    x = torch.zeros((), device=device, dtype=dtype).expand(1, 4, n, 64)
    places = Places.between(n, n, device=torch.device(device))
    return engine.choose(chain._case(x, x, x, FULL, places)).name


def check(n: int) -> bool:
    good = True
    for name, (chain, path) in chains(4).items():
        tensors = [torch.randn(2, 4, n, 64, dtype=torch.float64) for _ in range(3)]
        lengths = torch.tensor([n, max(1, n - 5)])
        want = run(chain.double(), tensors, lengths)
        for dtype in (torch.float32, torch.bfloat16):
            moved = [x.to("cuda", dtype) for x in tensors]
            chain.to("cuda", dtype).path = None
            got = run(chain, moved, lengths)
            # a dense run of the same precision says what rounding alone does
            chain.path = "dense"
            dense = run(chain, moved, lengths)
            chain.path = None
            for what, exact in want.items():
                far, limit = error(got[what], exact), max(1e-4, 2 * error(dense[what], exact))
                if not far <= limit:
                    good = False
                    print(f"n={n} {name} {dtype} {what}: error {far:.1e}, limit {limit:.1e}  WRONG")
        taken = path_of(chain, 4096, "cuda", torch.bfloat16)
        if taken != path:
            good = False
            print(f"{name} takes the path {taken}, not {path}  WRONG")
        chain.to("cpu")
    print(f"n={n}: {len(chains(4))} chains {'are' if good else 'are NOT all'} those of float64")
    return good


def check_widths(n: int = 70) -> bool:
    """Heads of widths that the kernels do not take as they are: odd ones, and very wide ones."""
    good = True
    for width in (7, 42, 64, 84, 256, 264, 512, 1024):
        tensors = [torch.randn(2, 2, n, width, dtype=torch.float64) / width**0.25 for _ in range(3)]
        for lengths in (torch.tensor([n, n]), torch.tensor([n, n - 5])):
            want = list(run(Chain(), tensors, lengths).values())
            for dtype, limit in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2)):
                moved = [x.to("cuda", dtype) for x in tensors]
                worst = _worst(list(run(Chain(), moved, lengths).values()), want)
                good &= worst < limit
                print(f"width {width} {dtype}: error {worst:.1e}, limit {limit:.1e}")
    return good


def check_loss() -> bool:
    """The loss and its gradients, by the kernel that turns logits into gradients in place."""
    hidden = torch.randn(2, 61, 48, dtype=torch.float64)
    output, gold = torch.randn(1003, 48, dtype=torch.float64), torch.randint(4, 1003, (2, 61))
    gold[1, 40:] = 0

    def found(dtype: torch.dtype, device: str) -> list[Tensor]:
        leaves = [x.to(device, dtype).requires_grad_() for x in (hidden, output)]
        loss = token_loss(*leaves, gold.to(device), smoothing=0.1, scale=0.01)
        return [loss.total, loss.nll, *torch.autograd.grad(loss.total, leaves)]

    want, good = found(torch.float64, "cpu"), True
    for dtype, limit in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2)):
        worst = _worst(found(dtype, "cuda"), want)
        good &= worst < limit
        print(f"loss {dtype}: error {worst:.1e}, limit {limit:.1e}")
    return good


def check_next(n: int = 9001) -> bool:
    """The best next tokens, by the kernel that reads logits once; one row has but one possible."""
    logits = torch.randn(3, n)
    logits[1] = -torch.inf
    logits[1, n // 2] = 0.7
    want = best_next(logits.clone().double(), 2, EOS)
    found = best_next(logits.cuda(), 2, EOS)
    is_possible = want.scores.isfinite()
    same = bool((found.tokens.cpu() == want.tokens)[is_possible].all())
    worst = error(found.scores.cpu()[is_possible], want.scores[is_possible])
    print(f"next tokens of {n}: {'the same' if same else 'WRONG'}, error {worst:.1e}, limit 1e-5")
    return same and worst < 1e-5 and bool((found.scores.cpu().isfinite() == is_possible).all())


def check_padding(n: int = 8191) -> bool:
    """Of keys that do not exist one row is kept for all queries, and not one for each."""
    query, key, value = (
        torch.randn(1, 1, n, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    seen = padding(torch.tensor([n - 5], device="cuda"), n)
    Chain()(query, key, value, seen).context.sum().backward()
    taken = torch.cuda.max_memory_allocated() - held
    print(f"n={n} padded: {taken / 2**20:.1f} MiB beside the inputs, every pair would be 128 MiB")
    return taken < n * n


def milliseconds(work: Callable[[], object]) -> float:
    """The median of runs that each wait for the device, the host's part included."""
    for _ in range(3):
        work()
    times: list[float] = []
    while len(times) < 7 or sum(times) < 0.25:
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1000 * sorted(times)[len(times) // 2]


def mebibytes(work: Callable[[], object]) -> float:
    """How far the memory in use rises."""
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - held) / 2**20


def timed(n: int, n_heads: int = 16, n_tokens: int = 32_768) -> None:
    x = [
        torch.randn(n_tokens // n, n_heads, n, 64, device="cuda", dtype=torch.bfloat16)
        for _ in range(3)
    ]
    leaves = [each.requires_grad_() for each in x]

    def both(
        attention: Callable[..., Tensor], parameters: list[Tensor]
    ) -> Callable[[], tuple[Tensor, ...]]:
        def work() -> tuple[Tensor, ...]:
            context = attention(*leaves)
            return torch.autograd.grad(
                context, [*leaves, *parameters], torch.ones_like(context), allow_unused=True
            )

        return work

    sdpa = {
        is_causal: milliseconds(
            both(lambda *q, c=is_causal: scaled_dot_product_attention(*q, is_causal=c), [])
        )
        for is_causal in (False, True)
    }
    print(f"n={n}: SDPA {sdpa[False]:.2f} ms, causal {sdpa[True]:.2f} ms")
    for name, (chain, _) in chains(n_heads).items():
        moved = chain.to("cuda", torch.bfloat16)
        work = both(lambda *q, c=moved: c(*q).context, list(moved.parameters()))
        took, peer = milliseconds(work), sdpa[moved.pattern.as_kernel() == CAUSAL.as_kernel()]
        print(f"  {name}: {took:.2f} ms, {took / peer:.2f} x SDPA, {mebibytes(work):.0f} MiB")


if __name__ == "__main__":
    torch.manual_seed(0)
    passed = (
        min(check(n) for n in (1, 17, 65, 129, 1300))
        and check_widths()
        and check_loss()
        and check_next()
        and check_padding()
    )
    for length in (1024, 4096, 16_384):
        timed(length)
    print("every path equals the law" if passed else "some path is wrong")
    sys.exit(0 if passed else 1)
