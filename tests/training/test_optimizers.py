"""Steps that can be worked out by hand, and who moves what."""

from typing import Any, Literal, get_args

import pytest
import torch
from torch import Tensor, nn

from weft.errors import UsageError
from weft.models.transformer import Transformer, TransformerConfig
from weft.training.config import OPTIMIZER_KEYS, TrainingConfig
from weft.training.muon import ITERATIONS, Muon, groups_of_one_shape, orthogonalized, wide
from weft.training.optimizers import MOMENTUM, WEIGHT_DECAY, Both, hidden_matrices, make_optimizer


def optimizer_of(
    model: nn.Module, name: str, *, precision: torch.dtype = torch.float32, **settings: Any
) -> torch.optim.Optimizer:
    return make_optimizer(model, TrainingConfig(optimizer=name, learning_rate=0.1, **settings), precision)  # type: ignore[arg-type]


def one_number(name: str, **settings: Any) -> tuple[Tensor, torch.optim.Optimizer]:
    """A 1 x 1 matrix, which decays."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    return model.weight, optimizer_of(model, name, **settings)


def after_steps(number: Tensor, optimizer: torch.optim.Optimizer, gradients: list[float]) -> list[float]:
    """Its value after each step down these gradients."""
    values = []
    for gradient in gradients:
        number.grad = torch.full_like(number, gradient)
        optimizer.step()
        values.append(number.item())
    return values


def small_model() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3))


def take_steps(model: nn.Module, *optimizers: torch.optim.Optimizer, count: int = 3) -> list[Tensor]:
    """The parameters after some steps."""
    for step in range(count):
        model.zero_grad()
        (model(torch.linspace(-1, 1, 8).view(2, 4) + step) - 1).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


# By hand


def test_sgd_goes_on_along_its_momentum() -> None:
    # v = 1, then 0.9 * 1 + 1 = 1.9, then 0.9 * 1.9 + 0 = 1.71; each times the rate of 0.1.
    assert after_steps(*one_number("sgd"), [1.0, 1.0, 0.0]) == pytest.approx([0.9, 0.71, 0.539])


def test_sgd_without_momentum_follows_the_gradient_alone() -> None:
    assert after_steps(*one_number("sgd", momentum=0.0), [1.0, 1.0, 0.0]) == pytest.approx([0.9, 0.8, 0.8])


def test_nesterov_looks_one_step_ahead() -> None:
    # The gradient and 0.9 times v: 1 + 0.9 * 1 = 1.9, then 1 + 0.9 * 1.9 = 2.71.
    assert after_steps(*one_number("sgd", nesterov=True), [1.0, 1.0]) == pytest.approx([0.81, 0.539])


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adams_first_step_is_as_long_as_the_rate_whatever_the_gradient(name: str) -> None:
    (value,) = after_steps(*one_number(name, weight_decay=0.0), [1e-3])
    assert value == pytest.approx(0.9, rel=1e-5)


def test_decay_is_taken_from_the_weights_in_adamw_and_added_to_the_gradient_in_adam_and_sgd() -> None:
    assert after_steps(*one_number("adamw", weight_decay=0.5), [0.0]) == pytest.approx([0.95])  # 1 - 0.1 * 0.5
    assert after_steps(*one_number("sgd", weight_decay=0.5), [0.0]) == pytest.approx(
        [0.95]
    )  # the same without momentum
    assert after_steps(*one_number("adam", weight_decay=0.5), [0.0]) == pytest.approx(
        [0.9]
    )  # a gradient like any other


@pytest.mark.parametrize("value", [1.0, 100.0])
def test_adafactors_steps_are_the_rates_share_of_the_weights(value: float) -> None:
    number, optimizer = one_number("adafactor")
    nn.init.constant_(number, value)
    assert after_steps(number, optimizer, [1e-3]) == pytest.approx([0.9 * value], rel=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-6])
def test_adafactor_is_the_papers_whatever_the_size_of_the_gradients(size: float) -> None:
    # Algorithm 4 of Shazeer and Stern 2018, in float64: rows and columns of a mean square, then a clipped update.
    torch.manual_seed(5)
    model = nn.Linear(6, 4, bias=False)
    optimizer = optimizer_of(model, "adafactor")
    matrix = model.weight.detach().double()
    rows, columns = torch.zeros(4, 1, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.float64)
    shapes = torch.randn(5, 4, 6, dtype=torch.float64) * torch.logspace(-2, 0, 6, dtype=torch.float64)
    for step, gradient in enumerate(size * shapes, start=1):
        decay = 1 - step**-0.8
        rows = decay * rows + (1 - decay) * gradient.square().mean(1, keepdim=True)
        columns = decay * columns + (1 - decay) * gradient.square().mean(0, keepdim=True)
        update = gradient / (rows @ columns / rows.mean()).sqrt()
        update /= max(1.0, float(update.square().mean().sqrt()))
        matrix = matrix - 0.1 * max(1e-3, float(matrix.square().mean().sqrt())) * update
        model.weight.grad = gradient.float()
        optimizer.step()
    torch.testing.assert_close(model.weight.detach().double(), matrix, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_muons_first_step_turns_all_directions_of_the_gradient_into_equally_long_ones(precision: torch.dtype) -> None:
    torch.manual_seed(4)
    model = nn.Linear(24, 16, bias=False)
    optimizer = optimizer_of(model, "muon", weight_decay=0.0, precision=precision)
    before = model.weight.detach().clone()
    model.weight.grad = torch.randn(16, 24)
    optimizer.step()
    step = (before - model.weight.detach()) / 0.1
    singular = torch.linalg.svdvals(step) / (0.2 * 24**0.5)
    assert singular.min() > 0.5 and singular.max() < 1.5  # as near to 1 as five iterations come
    assert float(step.square().mean().sqrt()) == pytest.approx(0.2, rel=0.25)  # the size of AdamW's steps


@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (16, 16)], ids=str)
def test_muon_in_fp32_multiplies_each_singular_value_by_the_polynomial_and_nothing_else(
    shape: tuple[int, int],
) -> None:
    torch.manual_seed(6)
    matrices = torch.stack([wide(matrix) for matrix in torch.randn(3, *shape, dtype=torch.float64)])
    u, singular, v = torch.linalg.svd(matrices, full_matrices=False)
    singular /= singular.square().sum(-1, keepdim=True).sqrt()
    for _ in range(ITERATIONS):
        singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
    torch.testing.assert_close(orthogonalized(matrices.float()).double(), u * singular[:, None] @ v, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "tolerance"),
    [((8, 24), 0.0), ((24, 8), 0.0), ((128, 512), 0.0), ((512, 128), 1e-3)],  # a large tall one is added up otherwise
    ids=str,
)
def test_muon_in_bf16_is_torchs_own_and_but_for_large_tall_matrices_to_the_bit(
    shape: tuple[int, int], tolerance: float
) -> None:
    torch.manual_seed(7)
    gradients = torch.randn(3, *shape)
    ours, theirs = (nn.Parameter(torch.ones(shape)) for _ in range(2))
    settings: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.03}
    muon = Muon([ours], **settings, precision=torch.bfloat16)
    torchs = torch.optim.Muon([theirs], **settings, adjust_lr_fn="match_rms_adamw")
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        muon.step()
        torchs.step()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_muon_moves_matrices_side_by_side_as_each_alone(
    precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tall and wide ones of one shape in stacks of no more than have room, and one of another shape."""
    torch.manual_seed(8)
    shapes = [(8, 24), (24, 8)] * 5 + [(8, 8)]
    monkeypatch.setattr("weft.training.muon.STACK", 4 * 8 * 24)
    together, apart = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    settings: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.03, "precision": precision}
    optimizers = [Muon(together, **settings), *(Muon([matrix], **settings) for matrix in apart)]
    for _ in range(3):
        for mine, alone in zip(together, apart, strict=True):
            mine.grad = alone.grad = torch.randn(mine.shape)
        for optimizer in optimizers:
            optimizer.step()
    sizes = [len(group) for group in groups_of_one_shape(together)]
    assert sizes == [4, 4, 2, 1]
    for mine, alone in zip(together, apart, strict=True):
        torch.testing.assert_close(mine, alone, rtol=0, atol=1e-6 if precision == torch.float32 else 2e-3)


def test_muon_leaves_alone_what_has_no_gradient() -> None:
    moved, left = (nn.Parameter(torch.ones(3, 4)) for _ in range(2))
    muon = Muon([moved, left], lr=0.1, momentum=0.9, weight_decay=0.5, precision=torch.float32)
    moved.grad = torch.randn(3, 4)
    muon.step()
    assert torch.equal(left, torch.ones(3, 4)) and left not in muon.state


# Who moves what


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_muon_and_adamw_together_are_muon_and_adamw_apart(precision: torch.dtype) -> None:
    together, apart = small_model(), small_model()
    matrices = [parameter for parameter in apart.parameters() if parameter.dim() == 2]
    vectors = [parameter for parameter in apart.parameters() if parameter.dim() == 1]
    muon = Muon(matrices, lr=0.1, momentum=0.95, weight_decay=0.03, precision=precision)
    adamw = torch.optim.AdamW(vectors, lr=0.1, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True)
    both = optimizer_of(together, "muon", weight_decay=0.03, precision=precision)
    assert isinstance(both, Both)
    for mine, theirs in zip(take_steps(together, both), take_steps(apart, muon, adamw), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("tie", ["none", "decoder"])
def test_muon_moves_neither_embeddings_nor_positions_nor_the_output(tie: Literal["none", "decoder"]) -> None:
    config = TransformerConfig(
        model_dim=16, num_heads=2, encoder_layers=1, decoder_layers=1, ff_dim=24, positions="learned", tie=tie
    )
    model = Transformer(config, source_vocab_size=30, target_vocab_size=40, padding_id=0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    moved = {names[id(matrix)] for matrix in hidden_matrices(model)}
    matrices = {name for name, parameter in model.named_parameters() if parameter.dim() == 2}
    assert moved == {name for name in matrices if name.startswith(("encoder.", "decoder."))}
    assert "decoder.0.self_attention.output.weight" in moved
    rows = {parameter.size(0) for name, parameter in model.named_parameters() if name in matrices - moved}
    assert rows == {30, 40, 1024}  # tokens of either side and places


def test_a_model_without_hidden_matrices_is_refused_by_muon() -> None:
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 3)})
    with pytest.raises(UsageError, match="this model has none"):
        optimizer_of(model, "muon")


@pytest.mark.parametrize("name", WEIGHT_DECAY)
def test_only_matrices_decay(name: str) -> None:
    optimizer = optimizer_of(small_model(), name, weight_decay=0.02)
    decays = {(p.dim(), group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert decays == {(2, 0.02), (1, 0.0)}


@pytest.mark.parametrize("name", WEIGHT_DECAY)
def test_every_parameter_moves_and_is_moved_by_one_optimizer(name: str) -> None:
    model = small_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = optimizer_of(model, name)
    moved = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(moved) == sorted(id(parameter) for parameter in model.parameters())
    after = take_steps(model, optimizer, count=1)
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("name", WEIGHT_DECAY)
def test_what_is_left_out_is_the_optimizers_own(name: str) -> None:
    (matrices, *_) = optimizer_of(small_model(), name).param_groups
    assert matrices["weight_decay"] == WEIGHT_DECAY[name]
    assert matrices.get("momentum") == MOMENTUM.get(name)


def test_a_recipe_can_choose_every_optimizer_and_no_other() -> None:
    choices = set(get_args(TrainingConfig.model_fields["optimizer"].annotation))
    assert choices == set(WEIGHT_DECAY)
    assert {name for names in OPTIMIZER_KEYS.values() for name in names} <= choices
    assert OPTIMIZER_KEYS.keys() <= TrainingConfig.model_fields.keys()
