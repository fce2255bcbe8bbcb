"""The LSTM with attention: what its parts compute, and that search sees what training sees."""

import torch

from weft.models.recurrent import RecurrentConfig, RecurrentSeq2Seq
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID

CONFIG = RecurrentConfig(model_dim=16, encoder_layers=2, decoder_layers=2, dropout=0.0)
SOURCE = torch.tensor([[5, 6, 7, 8, END_ID], [9, 5, END_ID, PADDING_ID, PADDING_ID]])
TARGET = torch.tensor([[BEGIN_ID, 4, 5, 6], [BEGIN_ID, 7, 4, PADDING_ID]])


def network() -> RecurrentSeq2Seq:
    torch.manual_seed(1)
    return RecurrentSeq2Seq(CONFIG, source_vocab_size=12, target_vocab_size=10, padding_id=PADDING_ID).eval()


def test_attention_is_luongs_general_score_and_padding_gets_none() -> None:
    model = network()
    memory, mask = model.encode(SOURCE)
    hidden = torch.randn(2, 3, 16)
    combined, attention = model.attend(hidden, memory, mask)
    for row, length in enumerate((5, 3)):
        scores = hidden[row] @ model.score.weight.T @ memory[row, :length].T  # (target, source)
        expected = scores.exp() / scores.exp().sum(-1, keepdim=True)
        torch.testing.assert_close(attention[row, :, :length], expected)
        assert (attention[row, :, length:] == 0).all()
        context = expected @ memory[row, :length]
        both = torch.cat([context, hidden[row]], -1)
        torch.testing.assert_close(combined[row], torch.tanh(both @ model.combine.weight.T))


def test_a_sentence_alone_is_a_sentence_in_a_batch() -> None:
    model = network()
    together = model(SOURCE, TARGET)
    torch.testing.assert_close(model(SOURCE[1:, :3], TARGET[1:]), together[1:], rtol=1e-5, atol=1e-6)


def test_steps_are_teacher_forcing_also_after_rows_were_reordered() -> None:
    model = network()
    expected = model(SOURCE, TARGET).log_softmax(-1)
    state = model.start(SOURCE, 2)
    rows = TARGET.repeat_interleave(2, 0)
    for place in range(3):
        found = state.step(rows[:, place])
        torch.testing.assert_close(found[::2], expected[:, place])
        torch.testing.assert_close(state.head_attention()[0, :, 0], state.source_attention())
        state.reorder(torch.tensor([1, 0, 3, 2]))
    assert state.source_mask().tolist() == [[True] * 5, [True] * 3 + [False] * 2]


def test_no_output_depends_on_later_target_tokens() -> None:
    model = network()
    embedded = model.target_embedding(TARGET).detach().requires_grad_()
    memory, mask = model.encode(SOURCE)
    hidden, _ = model.decoder(embedded, model.first_state(memory, mask))
    model.attend(hidden, memory, mask)[0][:, 1].sum().backward()
    assert embedded.grad is not None
    assert (embedded.grad[:, 2:] == 0).all() and (embedded.grad[:, :2] != 0).any()
