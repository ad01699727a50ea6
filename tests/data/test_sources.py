"""Sources: a batch's numbers become tokens, pictures or annotations, row by row."""

import numpy as np
import torch

from regard.data import Corpus, Example, collate, epoch_batches, too_long, write_corpus
from regard.data.annotation_store import write_annotations
from regard.data.augmentation import Augmentation
from regard.data.normalisation import NORMALISERS
from regard.data.picture_store import write_pictures
from regard.data.sources import StoredRows, TokenRows
from regard.data.subword_kinds import KINDS
from regard.data.subwords import Subwords

CAPTIONS = ["a dog", "a red ball", "two dogs", "a cat on a mat"]
ADDRESSES = [f"scene:5-{number}" for number in (3, 8, 1)]


def _corpus(folder):
    store = write_pictures(folder / "pictures", ADDRESSES, size=16)
    words = Subwords.train(CAPTIONS, kind=KINDS["words"], size=30)
    examples = [
        Example(ADDRESSES[2], (CAPTIONS[0], CAPTIONS[1])),
        Example(ADDRESSES[0], (CAPTIONS[2],)),
        Example(ADDRESSES[1], (CAPTIONS[3],)),
    ]
    corpus = write_corpus(folder / "corpus", examples, store, words, source_end=())
    return corpus, store


def test_a_picture_is_one_number_and_captions_of_one_picture_share_it(tmp_path):
    corpus, _ = _corpus(tmp_path)
    assert [corpus.source(row).tolist() for row in range(4)] == [[2], [2], [0], [1]]
    assert corpus.source_lengths.tolist() == [1, 1, 1, 1]
    assert too_long(corpus, max_source=1, max_target=5).tolist() == [3]


def test_every_row_has_its_own_picture_whatever_the_batch(tmp_path):
    corpus, store = _corpus(tmp_path)
    seen = Corpus.open(corpus.path)
    assert seen.sources == TokenRows()
    seen = Corpus(**{**vars(seen), "sources": StoredRows(store.pictures)})
    wanted = {0: 2, 1: 2, 2: 0, 3: 1}
    met = []
    for rows in epoch_batches(seen, target_tokens=8, seed=1, epoch=0):
        batch = collate(seen, rows)
        assert batch.source.dtype == torch.uint8
        assert batch.source_lengths.tolist() == [1] * len(rows)
        for place, row in enumerate(rows.tolist()):
            picture = store.pictures(np.array([wanted[row]]))[0]
            assert torch.equal(batch.source[place], picture)
        met += rows.tolist()
    assert sorted(met) == [0, 1, 2, 3]


def test_augmenting_depends_on_epoch_and_row_and_not_on_the_batch(tmp_path):
    corpus, store = _corpus(tmp_path)
    plain = StoredRows(store.pictures, Augmentation(seed=4, margin=3, may_mirror=False))

    def fetched(sources, rows):
        return sources.fetch(corpus.source_ids, corpus.source_begins, np.array(rows), 1)[0]

    together, alone = fetched(plain, [0, 1, 3]), fetched(plain, [3])
    assert torch.equal(together[2], alone[0])
    assert not torch.equal(together[0], together[1]), "two captions, two views of one picture"
    later = fetched(plain.in_epoch(1), [0, 1, 3])
    assert not torch.equal(later, together)
    assert torch.equal(fetched(plain.in_epoch(1).in_epoch(0), [0, 1, 3]), together)


def test_annotations_stand_in_for_the_pictures_they_were_made_of(tmp_path):
    corpus, store = _corpus(tmp_path)

    def annotate(pictures):
        return pictures.float().mean((2, 3))[:, None, :]

    made = write_annotations(tmp_path / "annotations", store, annotate, maker="a mean")
    sources = StoredRows(made.annotations)
    assert sources.in_epoch(7) is sources
    got, lengths = sources.fetch(corpus.source_ids, corpus.source_begins, np.array([3, 0]), 4)
    wanted = annotate(store.pictures(np.array([1, 2])))
    torch.testing.assert_close(got.float(), wanted, rtol=1e-3, atol=0)
    assert lengths.tolist() == [1, 1]


def test_the_form_of_captions_has_small_letters_and_no_punctuation():
    form = NORMALISERS["captions"]
    said = form("Two DOGS , a man's hat-stand … and 3 c_a_ts!")
    assert said.text == "two dogs a man's hat stand and 3 c a ts"
    assert said.origins == (0, 1, 3, 4, 5, 5, 7, 8, 9, 9, 9)
    assert form(said.text).text == said.text
