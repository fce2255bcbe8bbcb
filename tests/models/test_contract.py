"""Every kind of network is what a translation loss and a search ask for."""

import torch

from weft.models.contract import AttendingSteps, Seq2Seq
from weft.models.kinds import SEQ2SEQ
from weft.models.recurrent import RecurrentConfig
from weft.models.transformer import TransformerConfig

SETTINGS = {
    "transformer": TransformerConfig(model_dim=8, num_heads=2, encoder_layers=1, decoder_layers=3, ff_dim=8),
    "recurrent": RecurrentConfig(embedding_dim=8, hidden_dim=8),
}


def test_every_kind_has_the_contract_and_tells_the_attention_of_its_heads() -> None:
    assert SETTINGS.keys() == SEQ2SEQ.keys()
    for kind, settings in SETTINGS.items():
        network = SEQ2SEQ[kind](settings, source_vocab_size=9, target_vocab_size=9, padding_id=0).eval()
        assert isinstance(network, Seq2Seq) and network.output.out_features == 9
        steps = network.start_plain(torch.tensor([[5, 6, 2], [7, 2, 0]]), 2)
        assert isinstance(steps, AttendingSteps)
        steps.step(torch.tensor([1, 1, 1, 1]))
        heads = steps.head_attention()
        assert len(heads) == settings.attending_layers and heads.shape[1] == 4 and heads.shape[3] == 3
        torch.testing.assert_close(heads.sum(-1), torch.ones(heads.shape[:3]))
        assert (heads[:, 2:, :, 2] == 0).all()  # padding


def test_a_transformer_says_its_size() -> None:
    settings = SETTINGS["transformer"]
    assert (settings.width, settings.longest, settings.describe()) == (8, None, "1+3 layers, 8 wide")
