"""Gated convolutions, and the model made of them, word by word in plain loops.

torch's tensors are used for their gradients alone: every sum over words is a loop.
"""

import math

import torch


def block(x, weight, bias, *, kernel, dilation, n_before, length):
    """One gated convolution of one sentence (n m), of which `length` words exist."""
    rows = []
    for i in range(len(x)):
        total = bias
        for j in range(kernel):
            at = i - n_before + j * dilation
            if 0 <= at < length:
                part = weight[:, j * x.shape[1] : (j + 1) * x.shape[1]]
                total = total + part @ x[at]
        u, g = total[: x.shape[1]], total[x.shape[1] :]
        rows.append(math.sqrt(0.5) * (x[i] + u / (1 + torch.exp(-g))))
    return torch.stack(rows)


def look(h, y, z, e, W, c):
    """The attention of one decoder layer: contexts (t m) and weights (t n); every word exists."""
    n, contexts, weights = len(z), [], []
    for h_i, y_i in zip(h, y, strict=True):
        d = W @ h_i + c + y_i
        scores = [(d * z_j).sum() for z_j in z]
        largest = max(float(score.detach()) for score in scores)
        shares = [torch.exp(score - largest) for score in scores]
        a = [share / sum(shares) for share in shares]
        contexts.append(n * math.sqrt(1 / n) * sum(a[j] * (z[j] + e[j]) for j in range(n)))
        weights.append(torch.stack(a))
    return torch.stack(contexts), torch.stack(weights)


def logits(source, target, p, *, kernel, encoder_dilations, decoder_dilations):
    """The model with learned positions for one pair of sentences, and its weights layer by layer.

    Args:
        source: token numbers, all of which exist.
        target: token numbers that the decoder reads.
        p: every parameter by its name.
        kernel: words in a window.
        encoder_dilations: one for each layer.
        decoder_dilations: one for each layer.
    """
    e = torch.stack(
        [p["source.E.weight"][w] + p["source.positions.P.weight"][i] for i, w in enumerate(source)]
    )
    y = torch.stack(
        [p["target.E.weight"][w] + p["target.positions.P.weight"][i] for i, w in enumerate(target)]
    )
    z, h, maps = e, y, []
    for layer, dilation in enumerate(encoder_dilations):
        weight, bias = (p[f"encoder.{layer}.W.{name}"] for name in ("weight", "bias"))
        half = (kernel - 1) // 2 * dilation
        z = block(z, weight, bias, kernel=kernel, dilation=dilation, n_before=half, length=len(z))
    for layer, dilation in enumerate(decoder_dilations):
        at = f"decoder.{layer}"
        h = block(
            h,
            p[f"{at}.convolution.W.weight"],
            p[f"{at}.convolution.W.bias"],
            kernel=kernel,
            dilation=dilation,
            n_before=(kernel - 1) * dilation,
            length=len(h),
        )
        context, weights = look(h, y, z, e, p[f"{at}.W.weight"], p[f"{at}.W.bias"])
        h = math.sqrt(0.5) * (h + context)
        maps.append(weights)
    last = torch.stack([p["last.weight"] @ h_i + p["last.bias"] for h_i in h])
    return torch.stack([p["output.weight"] @ row for row in last]), maps
