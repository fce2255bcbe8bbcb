"""Span corruption: what is hidden follows at the end, and draws depend on seed, epoch and row alone."""

import numpy as np
import pytest
import torch

from weft.data.sentences import Sentences
from weft.data.spans import ADDED, SHORTEST, SpanCorruption, salient_places, salient_spans, span_buckets
from weft.text.characters import CharacterTokenizer, train_characters
from weft.text.kinds import train_tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID, MASK, PADDING_ID

MASK_ID, CONTEXT = 4, 64
LONGEST = 7 * CONTEXT // 8
QUESTION = [*range(10, 30)]


@pytest.fixture
def corruption() -> SpanCorruption:
    """Documents of 1 to 300 different ids, and one question, whose answer begins at place 15."""
    documents = [list(range(10, 10 + length)) for length in (1, 3, 4, 20, 56, 57, *[300] * 400)]
    return SpanCorruption(
        Sentences([*documents, QUESTION]), Sentences([[] for _ in documents] + [[15]]), 1, MASK_ID, CONTEXT
    )


def parts_of(row: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Prefix, suffix and middle of a corrupted row, whose frame is checked."""
    row = row[: row.index(END_ID) + 1]
    assert row[0] == BEGIN_ID and row.count(MASK_ID) == 2
    first = row.index(MASK_ID)
    second = row.index(MASK_ID, first + 1)
    return row[1:first], row[first + 1 : second], row[second + 1 : -1]


def test_prefix_middle_and_suffix_are_the_beginning_of_the_document(corruption: SpanCorruption) -> None:
    rows = np.arange(len(corruption.texts) - 1)
    batch = corruption(rows, 7)
    for row, ids in zip(rows.tolist(), batch.ids.tolist(), strict=True):
        prefix, suffix, middle = parts_of(ids)
        whole = corruption.texts[row].tolist()
        assert middle and [*prefix, *middle, *suffix] == whole[: len(prefix) + len(middle) + len(suffix)]
        assert set(ids[ids.index(END_ID) + 1 :]) <= {PADDING_ID}
    assert batch.first.tolist() == [1] * len(rows)


def test_lengths_are_uniform_and_a_quarter_is_hidden(corruption: SpanCorruption) -> None:
    begin, end, cut = np.concatenate([corruption.hidden(np.arange(6, 406), epoch) for epoch in range(50)], axis=1)
    assert (cut.min(), cut.max()) == (SHORTEST, LONGEST)
    assert cut.mean() == pytest.approx((SHORTEST + LONGEST) / 2, rel=0.02)
    assert ((end - begin) / cut).mean() == pytest.approx(0.25, abs=0.03)
    assert ((begin >= 0) & (end <= cut) & (end - begin <= np.maximum(cut // 2, 1))).all()


def test_a_question_is_never_cut_and_only_its_answer_is_predicted(corruption: SpanCorruption) -> None:
    batch = corruption(np.array([len(corruption.texts) - 1, 3]), 5)
    assert parts_of(batch.ids[0].tolist()) == (QUESTION[:15], [], QUESTION[15:])
    predicted = batch.ids[0, 1:][batch.is_predicted()[0]]
    assert predicted.tolist() == [*QUESTION[15:], END_ID]
    document = batch.ids[1, 1:][batch.is_predicted()[1]].tolist()
    assert document == [id for id in batch.ids[1].tolist()[1:] if id != PADDING_ID]
    assert not batch.without_predictions().is_predicted().any()


def test_a_row_is_the_same_in_any_batch_and_another_in_another_epoch_and_with_another_seed(
    corruption: SpanCorruption,
) -> None:
    together, alone = corruption(np.array([9, 200, 30]), 4), corruption(np.array([200]), 4)
    assert parts_of(together.ids[1].tolist()) == parts_of(alone.ids[0].tolist())
    other_seed = SpanCorruption(corruption.texts, corruption.places, 2, MASK_ID, CONTEXT)
    rows = np.arange(6, 406)
    for other in (corruption.hidden(rows, 5), other_seed.hidden(rows, 4)):
        assert (other != corruption.hidden(rows, 4)).any(axis=0).mean() > 0.9


def test_batches_hold_rows_of_similar_length_in_every_epoch_and_every_row_once(corruption: SpanCorruption) -> None:
    batches = span_buckets(corruption, seed=1, batch_sentences=32)
    for epoch in (0, 3):
        order, lengths = batches.order(epoch), corruption.lengths(epoch)
        assert sorted(np.concatenate(order).tolist()) == list(range(len(corruption.texts)))
        assert np.mean([np.ptp(lengths[rows]) for rows in order]) < 5
        for rows, batch in zip(order, batches.epoch(epoch), strict=True):
            assert ((batch.ids != PADDING_ID).sum(1).numpy() == lengths[rows]).all()
    assert batches.padding_share() < 0.07
    assert batches.columns[0].lengths.tolist() == corruption.lengths(0).tolist()


def test_a_round_shape_adds_no_prediction_and_knows_their_number(corruption: SpanCorruption) -> None:
    batch = corruption(np.array([3, 9, len(corruption.texts) - 1]), 1)
    filled = batch.filled_up()
    assert len(filled.ids) == 4 and (filled.ids.size(1) - 1) % 4 == 0
    assert filled.tokens == int(batch.is_predicted().sum()) == int(filled.is_predicted().sum())
    kept = filled.ids[: len(batch.ids), : batch.ids.size(1)]
    assert torch.equal(kept, batch.ids)


# ---- salient spans ----

TEXT = (
    "Ann Lee. Ann Lee (born 3 May 1920 in New York, Ohio) is a singer. She sang in Paris with Bob Dylan . Then she left"
)


@pytest.fixture
def tokenizer() -> CharacterTokenizer:
    return train_characters([TEXT], vocab_size=300, language="en", tags=(MASK,))[0]


def test_salient_are_capitalized_words_but_months_the_name_and_words_that_begin_a_sentence() -> None:
    assert [TEXT[begin:end] for begin, end in salient_spans(TEXT)] == ["New York", "Ohio", "Paris", "Bob Dylan"]
    assert salient_spans("no capitals. None") == []


def test_places_are_counted_in_tokens_of_which_a_rare_character_takes_several(tokenizer: CharacterTokenizer) -> None:
    texts = [TEXT, "Ōno Ō. He lived in Ōsaka"]
    encoded = tokenizer.encode(texts)
    spans = [
        [tokenizer.decode([ids[begin:end]])[0] for begin, end in zip(places[::2], places[1::2], strict=True)]
        for ids, places in zip(encoded, salient_places(texts, tokenizer), strict=True)
    ]
    assert spans == [["New York", "Ohio", "Paris", "Bob Dylan"], ["Ōsaka"]]


def test_places_of_spans_in_pieces_are_where_the_pieces_of_the_text_are() -> None:
    tokenizer = train_tokenizer([TEXT] * 20, kind="bpe", vocab_size=330, language="en", tags=(MASK,))[0]
    ((ids,), (places,)) = tokenizer.encode([TEXT]), salient_places([TEXT], tokenizer)
    spans = [tokenizer.decode([ids[begin:end]])[0] for begin, end in zip(places[::2], places[1::2], strict=True)]
    assert spans == ["New York", "Ohio", "Paris", "Bob Dylan"]
    assert len(ids) < 0.6 * len(TEXT)
    assert not salient_places(["Ann Lee. Born in (Rome)"], tokenizer)[0]  # alone, Rome begins with a mark of a space


def test_a_salient_document_ends_with_one_of_its_spans_that_fit(tokenizer: CharacterTokenizer) -> None:
    (ids,), places = tokenizer.encode([TEXT]), salient_places([TEXT], tokenizer)
    rows = np.arange(300)
    corruption = SpanCorruption(Sentences([ids] * 300), Sentences(places * 300), 1, MASK_ID, CONTEXT + 32, salient=0.5)
    found = [parts_of(row) for row in corruption(rows, 1).ids.tolist()]
    hidden = [tokenizer.decode([middle])[0] for _, suffix, middle in found if not suffix]
    assert {"New York", "Ohio", "Paris"} <= set(hidden) and "Bob Dylan" not in hidden  # it ends behind 7/8
    assert np.mean([each in ("New York", "Ohio", "Paris") for each in hidden]) > 0.9
    assert len(hidden) == pytest.approx(150, abs=30)
    assert ADDED == 4
