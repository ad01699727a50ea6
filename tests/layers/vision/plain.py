"""The image encoders in plain sums: every tap of a kernel is one line of a loop.

torch's tensors are used for their gradients alone; nothing of the package is imported.
"""

import math

import torch

LITE0 = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
         (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)]  # fmt: skip
"""Blocks, kernel, stride, expansion, width of every stage."""


def convolve(x, weight, *, stride, before, after):
    """A convolution; a kernel with one input channel works on every channel alone."""
    b, ch, height, width = x.shape
    grown = x.new_zeros(b, ch, before[0] + height + after[0], before[1] + width + after[1])
    grown[:, :, before[0] : before[0] + height, before[1] : before[1] + width] = x
    k = weight.shape[-1]
    rows = (grown.shape[2] - k) // stride + 1
    columns = (grown.shape[3] - k) // stride + 1
    total = 0
    for i in range(k):
        for j in range(k):
            seen = grown[:, :, i : i + stride * rows : stride, j : j + stride * columns : stride]
            tap = weight[:, :, i, j]
            alone = tap.shape[1] == 1 and ch > 1
            total = total + (
                seen * tap[:, 0, None, None] if alone else torch.einsum("byrc,dy->bdrc", seen, tap)
            )
    return total


def rows_of_cells(grid):
    """Annotations (b l d), one cell after another, row by row."""
    _, _, rows, columns = grid.shape
    return torch.stack([grid[:, :, i, j] for i in range(rows) for j in range(columns)], 1)


def group_norm(x, gain, bias, *, n_groups=8, eps=1e-5):
    """Every picture and group of channels by its own mean and variance."""
    per, out = x.shape[1] // n_groups, []
    for g in range(n_groups):
        part = x[:, g * per : (g + 1) * per]
        mean = part.mean((1, 2, 3), keepdim=True)
        variance = ((part - mean) ** 2).mean((1, 2, 3), keepdim=True)
        out.append((part - mean) / torch.sqrt(variance + eps))
    return torch.cat(out, 1) * gain[:, None, None] + bias[:, None, None]


def residual(pictures, p, *, n_stages, n_blocks):
    """The residual network, from its weights by name."""
    cell = 2 ** (n_stages + 1)
    b, _, height, width = pictures.shape
    rows, columns = math.ceil(height / cell), math.ceil(width / cell)
    x = torch.zeros(b, 3, rows * cell, columns * cell, dtype=torch.float64)
    x[:, :, :height, :width] = pictures.double() / 127.5 - 1

    def normed(x, name, norm):
        return group_norm(x, p[f"{name}.{norm}.weight"], p[f"{name}.{norm}.bias"])

    def same(x, weight):
        return convolve(x, weight, stride=1, before=(1, 1), after=(1, 1))

    x = convolve(x, p["stem.S.weight"], stride=2, before=(1, 1), after=(1, 1))
    x = normed(x, "stem", "norm").clamp(min=0)
    for s in range(n_stages):
        x = convolve(x, p[f"stages.{s}.0.S.weight"], stride=2, before=(0, 0), after=(0, 0))
        x = normed(x, f"stages.{s}.0", "norm").clamp(min=0)
        for i in range(1, n_blocks + 1):
            name = f"stages.{s}.{i}"
            inner = normed(same(x, p[f"{name}.A.weight"]), name, "norm_A").clamp(min=0)
            x = (x + normed(same(inner, p[f"{name}.B.weight"]), name, "norm_B")).clamp(min=0)
    return rows_of_cells(x)


def lite0_shapes():
    """Every tensor of a published EfficientNet-Lite0, by the name it has there."""
    shapes = {}

    def add(convolution, norm, d_out, d_in, k):
        shapes[f"{convolution}.weight"] = (d_out, d_in, k, k)
        for number in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{norm}.{number}"] = (d_out,)

    add("_conv_stem", "_bn0", 32, 3, 3)
    width, block = 32, 0
    for n_blocks, k, _, expansion, d_out in LITE0:
        for _ in range(n_blocks):
            at, inside = f"_blocks.{block}", width * expansion
            if expansion > 1:
                add(f"{at}._expand_conv", f"{at}._bn0", inside, width, 1)
            add(f"{at}._depthwise_conv", f"{at}._bn1", inside, 1, k)
            add(f"{at}._project_conv", f"{at}._bn2", d_out, inside, 1)
            width, block = d_out, block + 1
    add("_conv_head", "_bn1", 1280, width, 1)
    return {**shapes, "_fc.weight": (1000, 1280), "_fc.bias": (1000,)}


def random_lite0(dtype=torch.float32):
    """A state dict that looks like the published one."""

    def number(name, shape):
        if len(shape) == 4:
            return torch.randn(shape) * (2 / math.prod(shape[1:])) ** 0.5
        if name.endswith("running_var") or ("_bn" in name and name.endswith(".weight")):
            return torch.rand(shape) + 0.5
        return torch.randn(shape) * 0.1

    return {name: number(name, shape).to(dtype) for name, shape in lite0_shapes().items()}


def lite0(pictures, p, *, n_stages):
    """The features of so many stages, and of the head if these are all seven."""

    def normed(x, convolution, norm, *, stride=1):
        weight = p[f"{convolution}.weight"]
        k, sizes = weight.shape[-1], x.shape[-2:]
        lack = [max(0, (math.ceil(n / stride) - 1) * stride + k - n) for n in sizes]
        before = [n // 2 for n in lack]
        after = [n - m for n, m in zip(lack, before, strict=True)]
        x = convolve(x, weight, stride=stride, before=before, after=after)
        mean, variance = p[f"{norm}.running_mean"], p[f"{norm}.running_var"]
        x = (x - mean[:, None, None]) / torch.sqrt(variance[:, None, None] + 0.001)
        return x * p[f"{norm}.weight"][:, None, None] + p[f"{norm}.bias"][:, None, None]

    def clipped(x):
        return x.clamp(0, 6)

    x = clipped(normed((pictures.double() - 127) / 128, "_conv_stem", "_bn0", stride=2))
    block = 0
    for n_blocks, _, first_stride, expansion, d_out in LITE0[:n_stages]:
        for number in range(n_blocks):
            at, stride, given = f"_blocks.{block}", 1 if number else first_stride, x
            if expansion > 1:
                x = clipped(normed(x, f"{at}._expand_conv", f"{at}._bn0"))
            x = clipped(normed(x, f"{at}._depthwise_conv", f"{at}._bn1", stride=stride))
            x = normed(x, f"{at}._project_conv", f"{at}._bn2")
            if stride == 1 and given.shape[1] == d_out:
                x = x + given
            block += 1
    if n_stages == len(LITE0):
        x = clipped(normed(x, "_conv_head", "_bn1"))
    return rows_of_cells(x)
