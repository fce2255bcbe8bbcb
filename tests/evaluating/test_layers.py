"""A network without its top layers is the network of that many layers, on the same weights."""

from pathlib import Path

import pytest
import torch

from weft.data.corpus import read_corpora
from weft.evaluating.forced import batches_of
from weft.evaluating.heads import loss_of
from weft.evaluating.layers import examine_layers, shortened
from weft.folders.model_folder import load_model
from weft.models.transformer import Transformer, TransformerConfig
from weft.translating.translator import Translator


def test_the_lower_layers_are_a_transformer_of_their_own() -> None:
    shape = {"model_dim": 16, "num_heads": 2, "encoder_layers": 3, "decoder_layers": 2, "ff_dim": 24}
    sizes = {"source_vocab_size": 20, "target_vocab_size": 20, "padding_id": 0}
    deep = Transformer(TransformerConfig.model_validate(shape), **sizes).eval()
    shallow = Transformer(
        TransformerConfig.model_validate({**shape, "encoder_layers": 2, "decoder_layers": 1}), **sizes
    )
    weights = {name: weight for name, weight in deep.state_dict().items() if name in shallow.state_dict()}
    shallow.load_state_dict(weights)
    source, target = torch.randint(3, 20, (3, 6)), torch.randint(3, 20, (3, 5))
    with torch.inference_mode():
        before = deep(source, target)
        torch.testing.assert_close(shortened(deep, 2, 1)(source, target), shallow.eval()(source, target))
        assert torch.equal(deep(source, target), before) and len(deep.encoder) == 3
        assert torch.isfinite(shortened(deep, 0, 1)(source, target)).all()


def test_every_depth_is_measured_and_the_first_is_the_whole_model(distinct_model: Path, tiny_run: Path) -> None:
    translator = Translator(load_model(distinct_model))
    pairs = read_corpora(["valid.tsv"], translator.model.recipe.data, tiny_run)
    heard: list[tuple[int, int]] = []
    found = examine_layers(translator, pairs, lambda done, total: heard.append((done, total)))
    assert [(one.encoder, one.decoder) for one in found.depths] == [(2, 2), (1, 2), (0, 2), (2, 1)]
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]
    batches = batches_of(translator, pairs)
    assert found.whole.loss == pytest.approx(loss_of(translator.model.network, batches))
    assert [one.decoder for one in found.of_stack("decoder")] == [2, 1]
    assert [one.encoder for one in found.of_stack("encoder")] == [2, 1, 0]
    assert found.whole.accuracy == pytest.approx(share_of_right_tokens(translator.model.network, batches))
    assert "nrefs:1" in found.signature


def share_of_right_tokens(network: Transformer, batches: list) -> float:
    """The most probable token at each place, one sentence after the other."""
    right = []
    for source, target in ((s[None, s > 0], t[None, t > 0]) for batch in batches for s, t in zip(*batch, strict=True)):
        with torch.inference_mode():
            right += (network(source, target[:, :-1]).argmax(-1) == target[:, 1:]).flatten().tolist()
    return sum(right) / len(right)
