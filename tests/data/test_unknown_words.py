import pytest

from regard.data.subword_kinds import BPE, CHARACTERS, WORDS
from regard.data.unknown_words import unknown_rate
from tests.data.test_subwords import TRAINED


def test_unknown_rate_is_the_share_of_characters_without_a_piece():
    assert unknown_rate(TRAINED[CHARACTERS], ["the cat", "ZZZ"]) == pytest.approx(3 / 10)
    assert unknown_rate(TRAINED[WORDS], ["the zebra"]) == pytest.approx(5 / 9)
    assert unknown_rate(TRAINED[BPE], ["the cat", "狗x"]) == pytest.approx(1 / 9)
    assert unknown_rate(TRAINED[BPE], ["<unk>"]) == 0
    assert unknown_rate(TRAINED[BPE], []) == 0
