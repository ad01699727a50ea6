"""Tiles: a map cut for a kernel holds exactly the pairs of the map."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.attention import all_of, given, padding
from regard.attention.engine.tiles import SIDE, Lists, Tiling, differs_by_head
from regard.attention.links import Pattern
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.tables import PATTERNS
from regard.dims import Dims
from regard.places import Places

DIMS = Dims(d_model=16, n_heads=2)
BATCH = 2


def drawn(tiling: Tiling, n_queries: int, n_keys: int) -> Tensor:
    """The whole map, put together from its tiles by rows."""
    lists, bits = tiling.by_row, tiling.bits
    n_rows, n_columns = -(-n_queries // SIDE), -(-n_keys // SIDE)
    whole = torch.zeros(len(bits), n_rows * SIDE, n_columns * SIDE, dtype=torch.bool)
    for row in range(n_rows):
        for t in range(int(lists.start[row]), int(lists.start[row + 1])):
            pairs = (bits[:, t, :, None] >> torch.arange(SIDE)) & 1
            down, right = row * SIDE, int(lists.other[t]) * SIDE
            whole[:, down : down + SIDE, right : right + SIDE] = pairs.bool()
    assert not whole[:, n_queries:].any() and not whole[:, :, n_keys:].any()
    whole = whole[:, :n_queries, :n_keys]
    return whole if tiling.valid is None else whole & tiling.valid[:, None]


def shown(mask: Pattern, places: Places, n_queries: int, n_keys: int) -> Tensor:
    """The same map, asked of the mask itself."""
    pairs = mask.visible(places)
    return pairs.reshape(-1, *pairs.shape[-2:]).expand(-1, n_queries, n_keys)


MASKS: dict[str, Callable[[int], Pattern | None]] = {
    "nothing": lambda n: None,
    "padding": lambda n: padding(torch.tensor([n, max(1, n - 70)]), n),
    "causal": lambda n: CausalPattern(),
    "matrix": lambda n: given(torch.rand(n, n) < 0.7),
    "matrices": lambda n: given(torch.rand(BATCH, 1, n, n) < 0.7),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("n", [1, 64, 200])
@pytest.mark.parametrize("name", PATTERNS)
def test_the_tiles_hold_every_visible_pair_and_no_other(name: str, n: int, mask: str) -> None:
    torch.manual_seed(n)
    parts = [PATTERNS[name](DIMS), MASKS[mask](n)]
    joined, places = all_of(*(part for part in parts if part is not None)), Places.between(n, n)
    tiling = Tiling.of(joined, places, n, n)
    assert torch.equal(drawn(tiling, n, n), shown(joined, places, n, n))


@pytest.mark.parametrize("past", [1, 64, 100])
def test_tiles_of_rows_behind_a_past_are_those_of_the_last_rows(past: int) -> None:
    n = 90
    places = Places.between(n, n + past, past=past)
    tiling = Tiling.of(CausalPattern(), places, n, n + past)
    assert torch.equal(drawn(tiling, n, n + past)[0], torch.ones(n, n + past).bool().tril(past))


def test_tiles_over_the_slots_of_a_memory_hide_unfinished_slots() -> None:
    n, memory = 200, MemoryCompressedMemory(DIMS.head(), stride=3)
    key = torch.randn(BATCH, 2, n, DIMS.d_head)
    mask = all_of(CausalPattern(), padding(torch.tensor([n, 150]), n))
    short = memory.shorten(key, key, mask, Places.between(n, n))
    n_slots = short.key.shape[-2]
    tiling = Tiling.of(short.mask, short.places, n, n_slots)
    want = shown(short.mask, short.places, n, n_slots)
    assert torch.equal(drawn(tiling, n, n_slots), want)
    assert not want[0, 1, 1] and want[0, 2, 1] and not want[1, 199, 51]


def test_both_lists_name_the_same_tiles() -> None:
    tiling = Tiling.of(PATTERNS["big_bird"](DIMS), Places.between(900, 900), 900, 900)

    def tiles(lists: Lists) -> list[tuple[int, int, int]]:
        owners = torch.arange(len(lists.order)).repeat_interleave(lists.start.diff())
        return list(zip(owners.tolist(), lists.other.tolist(), lists.tile.tolist(), strict=True))

    by_row = {(t, row, column) for row, column, t in tiles(tiling.by_row)}
    by_column = {(t, row, column) for column, row, t in tiles(tiling.by_column)}
    assert by_row == by_column and len(by_row) == tiling.bits.shape[1]


def test_the_fullest_blocks_come_first() -> None:
    tiling = Tiling.of(PATTERNS["big_bird"](DIMS), Places.between(900, 900), 900, 900)
    for lists in (tiling.by_row, tiling.by_column):
        counts = lists.start.diff()[lists.order.long()]
        assert torch.equal(counts, counts.sort(descending=True).values)
        assert sorted(lists.order.tolist()) == list(range(len(counts)))


def test_a_block_that_sees_nothing_has_no_tile() -> None:
    hidden = given(torch.cat([torch.zeros(64, 128), torch.ones(64, 128)]).bool())
    tiling = Tiling.of(hidden, Places.between(128, 128), 128, 128)
    assert tiling.by_row.start.tolist() == [0, 0, 2]
    assert tiling.by_row.order.tolist() == [1, 0]


def test_tiles_grow_with_the_length_and_not_with_its_square() -> None:
    pattern = PATTERNS["big_bird"](DIMS)

    def count(n: int) -> int:
        return Tiling.of(pattern, Places.between(n, n), n, n).bits.shape[1]

    assert count(4096) / count(2048) < 2.2


@pytest.mark.parametrize("past", [0, 30])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("reach", [1, 16, 70, 128])
def test_a_window_of_one_less_than_the_reach_is_the_band(reach: int, mask: str, past: int) -> None:
    torch.manual_seed(reach)
    n_keys = 220
    n_queries = n_keys - past
    parts = [SlidingWindowPattern(size=reach - 1), MASKS[mask](n_keys)]
    joined = all_of(*(part for part in parts if part is not None))
    places = Places.between(n_queries, n_keys, past=past)
    tiling = Tiling.of(joined, places, n_queries, n_keys)
    band = (places.offsets.abs() < reach)[None]
    if parts[1] is not None:
        band = band & shown(parts[1], places, n_queries, n_keys)
    assert torch.equal(drawn(tiling, n_queries, n_keys), band)


@pytest.mark.parametrize("reach", [1, 16, 128])
def test_blocks_of_rows_and_columns_list_their_tiles_in_order(reach: int) -> None:
    band, places = SlidingWindowPattern(size=reach - 1), Places.between(500, 500)
    tiling = Tiling.of(all_of(band, CausalPattern()), places, 500, 500)
    for lists in (tiling.by_row, tiling.by_column):
        for first, last in zip(lists.start[:-1].tolist(), lists.start[1:].tolist(), strict=True):
            others = lists.other[first:last]
            assert torch.equal(others, others.sort().values)


def test_tiles_that_are_known_need_no_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    band, causal = SlidingWindowPattern(size=15), CausalPattern()
    first = Tiling.of(all_of(band, causal), Places.between(300, 300), 300, 300)
    monkeypatch.setattr(torch, "arange", None)
    padded = all_of(band, causal, padding(torch.ones(BATCH, 300).bool()))
    second = Tiling.of(padded, Places.between(300, 300), 300, 300)
    assert second.bits is first.bits


def test_layers_and_batches_of_a_length_share_the_tiles_of_a_pattern() -> None:
    pattern, causal, places = PATTERNS["big_bird"](DIMS), CausalPattern(), Places.between(90, 90)

    def tiles(*masks: Pattern) -> object:
        return Tiling.of(all_of(pattern, *masks), places, 90, 90).bits

    assert tiles() is tiles(padding(torch.tensor([90, 8]))) is tiles(padding(torch.tensor([90, 7])))
    assert tiles(causal) is tiles(causal) is not tiles()
    matrices = [given(torch.rand(90, 90) < share) for share in (0.2, 0.8)]
    assert tiles(matrices[0]) is not tiles(matrices[1])


def test_a_mask_that_is_gone_is_not_taken_for_another() -> None:
    pattern, places = PATTERNS["full"](DIMS), Places.between(70, 70)
    for number in range(20):
        matrix = torch.rand(70, 70, generator=torch.Generator().manual_seed(number)) < 0.5
        tiling = Tiling.of(all_of(pattern, given(matrix)), places, 70, 70)
        assert torch.equal(drawn(tiling, 70, 70)[0], matrix)


def test_a_mask_that_differs_by_head_is_not_for_tiles() -> None:
    places = Places.between(5, 5)
    assert differs_by_head(given(torch.rand(BATCH, 3, 5, 5) < 0.5), places)
    assert not differs_by_head(given(torch.rand(BATCH, 1, 5, 5) < 0.5), places)
    assert not differs_by_head(padding(torch.tensor([5, 3])), places)
    assert not differs_by_head(PATTERNS["big_bird"](DIMS), places)
