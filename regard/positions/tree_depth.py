"""Tree-depth positions: where a word stands in the sentence, and how deep it hangs in its tree.

    PE[x] = tanh(W PE_sin[index(x)] + U PE_sin[depth(x)] + c)

Paper: Wang, Tu, Wang & Shi 2019, section 3.1 (absolute structural positions).
Cost: time O(n · m²), 2 m² + m parameters; sentences must come with their dependency heads.
"""

from typing import final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.errors import ShapeError
from regard.places import Tree
from regard.positions.sinusoidal import SinusoidalPositions


@final
class TreeDepthPositions(nn.Module):
    """A learned mixture of two sinusoidal codes: index and depth."""

    needs_trees = True

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.waves = SinusoidalPositions(dims)
        self.W = nn.Linear(dims.d_model, dims.d_model)
        self.U = nn.Linear(dims.d_model, dims.d_model, bias=False)

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "b n m"]:
        """Mix the codes of index and depth."""
        if tree is None:
            raise ShapeError(
                "tree_depth: the sentences' dependency trees are missing. Pass "
                "tree=Tree.from_heads(heads), or take sinusoidal, which needs none."
            )
        dtype = self.W.weight.dtype
        index = self.waves(positions).to(dtype)
        depth = self.waves(tree.depth).to(dtype)
        return (self.W(index) + self.U(depth)).tanh()
