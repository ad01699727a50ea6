"""The largest flow through layers of pipes, by Dinic's algorithm.

value = max Σ f(s, ·)   with 0 <= f <= capacity, and as much out of a node as into it
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

LEAST = 1e-9
"""Less than this is no flow."""


def maximum_flow(pipes: Sequence[Float[np.ndarray, "n n"]], start: int, end: int) -> float:
    """The most that fits from a node of the first layer to one of the last.

    >>> maximum_flow([np.array([[0.5, 0.5], [0.0, 1.0]])] * 2, 0, 1)
    1.0

    Args:
        pipes: for each layer, how wide the pipe from node i to node j of the next one is.
        start: in the first layer.
        end: in the last one.
    """
    network = _Network(pipes, start, end)
    total = 0.0
    while network.levels():
        while (pushed := network.push()) > LEAST:
            total += pushed
    return total


class _Network:
    """Nodes of all layers in a row; edge e and its way back e ^ 1."""

    def __init__(self, pipes: Sequence[np.ndarray], start: int, end: int) -> None:
        n = len(pipes[0])
        self.start, self.end = start, len(pipes) * n + end
        self.edges: list[list[int]] = [[] for _ in range((len(pipes) + 1) * n)]
        self.to: list[int] = []
        self.room: list[float] = []
        for layer, pipe in enumerate(pipes):
            for i, j in np.argwhere(pipe > LEAST).tolist():
                if layer + 1 < len(pipes) or j == end:
                    self._join(layer * n + i, (layer + 1) * n + j, float(pipe[i, j]))
        self.level: list[int] = []
        self.next: list[int] = []

    def _join(self, one: int, other: int, room: float) -> None:
        self.edges[one].append(len(self.to))
        self.edges[other].append(len(self.to) + 1)
        self.to += [other, one]
        self.room += [room, 0.0]

    def levels(self) -> bool:
        """How many steps each node is away; False if the end cannot be reached."""
        self.level, self.next = [-1] * len(self.edges), [0] * len(self.edges)
        self.level[self.start] = 0
        reached = [self.start]
        for node in reached:
            for edge in self.edges[node]:
                other = self.to[edge]
                if self.room[edge] > LEAST and self.level[other] < 0:
                    self.level[other] = self.level[node] + 1
                    reached.append(other)
        return self.level[self.end] >= 0

    def push(self) -> float:
        """Push what fits along one shortest way."""
        way: list[int] = []
        node = self.start
        while node != self.end:
            edge = self._onward(node)
            if edge is not None:
                way.append(edge)
                node = self.to[edge]
            elif way:
                # a dead end: never come here again
                node = self.to[way.pop() ^ 1]
                self.next[node] += 1
            else:
                return 0.0
        fits = min(self.room[edge] for edge in way)
        for edge in way:
            self.room[edge] -= fits
            self.room[edge ^ 1] += fits
        return fits

    def _onward(self, node: int) -> int | None:
        edges = self.edges[node]
        while self.next[node] < len(edges):
            edge = edges[self.next[node]]
            if self.room[edge] > LEAST and self.level[self.to[edge]] == self.level[node] + 1:
                return edge
            self.next[node] += 1
        return None
