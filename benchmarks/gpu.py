"""Every path on a CUDA device: equal to float64 on the CPU, and timed beside torch's SDPA.

    python benchmarks/gpu.py

Correctness comes first: error in bfloat16 at most twice that of the dense chain in bfloat16, and
below 1e-4 in float32, outputs and gradients, odd sizes; padding takes hardly any memory. Then
forward and backward at n = 4096.
"""

import sys

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard import Chain, Dims, attend
from regard.attention import padding
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.data.subword_kinds import EOS
from regard.decoding.token_scores import best_next
from regard.training.losses import token_loss

DIMS = Dims(d_model=64, n_heads=4, max_len=4096)


def chains() -> dict[str, Chain]:
    return {
        "soft": Chain(),
        "causal": Chain(pattern=CausalPattern()),
        "sliding_window": Chain(pattern=SlidingWindowPattern(size=256)),
        "big_bird": Chain(pattern=BigBirdPattern(block=64)),
        "causal big_bird": Chain(pattern=BigBirdPattern(block=16, is_causal=True)),
        "linear_bias": Chain(relation=LinearBiasRelation(DIMS)),
        "shaw": Chain(relation=ShawRelation(DIMS)),
        "local_predictive": Chain(select=LocalPredictiveSelection(DIMS)),
        "linformer": Chain(memory=LinformerMemory(DIMS)),
        "memory_compressed": Chain(memory=MemoryCompressedMemory(DIMS), pattern=CausalPattern()),
    }


def error(got: Tensor, want: Tensor) -> float:
    # a gradient that is exactly zero has no relative error
    return float(
        (got.detach().double().cpu() - want.detach()).norm() / want.detach().norm().clamp(min=1.0)
    )


def _worst(got: list[Tensor], want: list[Tensor]) -> float:
    return max(error(g, w) for g, w in zip(got, want, strict=True))


def run(chain: Chain, tensors: list[Tensor], lengths: Tensor) -> list[Tensor]:
    """Context and the gradients of query, key and value."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    device = leaves[0].device
    context = chain(*leaves, padding(lengths.to(device), leaves[1].shape[-2])).context
    weights = torch.linspace(0.5, 1.5, context.shape[-1], dtype=context.dtype, device=device)
    return [context, *torch.autograd.grad((context * weights).sum(), leaves)]


def check(n: int) -> bool:
    good = True
    for name, chain in chains().items():
        tensors = [torch.randn(2, 4, n, 64, dtype=torch.float64) for _ in range(3)]
        lengths = torch.tensor([n, max(1, n - 5)])
        want = run(chain.double(), tensors, lengths)
        for dtype in (torch.float32, torch.bfloat16):
            moved = [x.to("cuda", dtype) for x in tensors]
            chain.to("cuda", dtype).path = None
            worst = _worst(run(chain, moved, lengths), want)
            # a dense run of the same precision says what rounding alone does
            chain.path = "dense"
            limit = max(1e-4, 2 * _worst(run(chain, moved, lengths), want))
            good &= worst < limit
            mark = "" if worst < limit else "  WRONG"
            print(f"n={n} {name} {dtype}: error {worst:.1e}, limit {limit:.1e}{mark}")
            chain.path = None
        chain.to("cpu")
    return good


def check_widths(n: int = 70) -> bool:
    """Heads of widths that the kernels do not take as they are: odd ones, and very wide ones."""
    good = True
    for width in (7, 42, 64, 84, 256, 264, 512, 1024):
        tensors = [torch.randn(2, 2, n, width, dtype=torch.float64) / width**0.25 for _ in range(3)]
        for lengths in (torch.tensor([n, n]), torch.tensor([n, n - 5])):
            want = run(Chain(), tensors, lengths)
            for dtype, limit in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2)):
                worst = _worst(run(Chain(), [x.to("cuda", dtype) for x in tensors], lengths), want)
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


def milliseconds(work: object) -> float:
    assert callable(work)
    for _ in range(5):
        work()
    times = []
    for _ in range(15):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def timed(n: int = 4096) -> None:
    query, key, value = (
        torch.randn(2, 4, n, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )

    def both(attention: object) -> object:
        assert callable(attention)

        def work() -> None:
            out = attention()
            torch.autograd.grad(out.sum(), (query, key, value), allow_unused=True)

        return work

    sdpa = milliseconds(both(lambda: scaled_dot_product_attention(query, key, value)))
    dense = milliseconds(both(lambda: attend(query, key, value).context))
    print(f"n={n} bfloat16 forward+backward: SDPA {sdpa:.2f} ms, dense {dense:.2f} ms")
    for name, chain in chains().items():
        moved = chain.to("cuda", torch.bfloat16)
        took = milliseconds(both(lambda moved=moved: moved(query, key, value).context))
        path = chain.to("cpu", torch.float32).explain(n, n_heads=4).path
        ratios = f"{dense / took:.2f} x dense, {sdpa / took:.2f} x SDPA"
        print(f"  {name} ({path}): {took:.2f} ms, {ratios}")


if __name__ == "__main__":
    torch.manual_seed(0)
    passed = (
        min(check(n) for n in (1, 17, 33, 64, 65, 129, 1000))
        and check_widths()
        and check_loss()
        and check_next()
        and check_padding()
    )
    timed()
    print("every path equals the law" if passed else "some path is wrong")
    sys.exit(0 if passed else 1)
