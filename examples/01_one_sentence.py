"""Three words attend to each other, and the weights are drawn: the README's first picture.

Expected output, among other lines:

    tensor([[1.0000, 2.7798, 2.0377],
            [1.0000, 1.7288, 2.5839],
            [1.0000, 2.6080, 2.0000]])
"""

import sys

import torch

from regard import attend
from regard.plots import heatmap

words = ["I", "am", "good"]
x = torch.tensor([[1.0, 3, 2], [1, 1, 3], [1, 2, 1]])
attended = attend(x, x, x)
print(attended.context)
picture = heatmap(attended.map.dense(), queries=words, keys=words)
picture.savefig(sys.argv[1] if len(sys.argv) > 1 else "attention.png", dpi=110)
