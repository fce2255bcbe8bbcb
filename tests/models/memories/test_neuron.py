"""A neuron, what a perceptron learns, and what it cannot."""

import torch

from weft.models.memories.neuron import AND, INPUTS, OR, learn_perceptron, xor


def test_gates_are_neurons_and_xor_takes_two_layers() -> None:
    assert AND(INPUTS).tolist() == [0, 0, 0, 1] and OR(INPUTS).tolist() == [0, 1, 1, 1]
    assert xor(INPUTS).tolist() == [0, 1, 1, 0]


def test_a_perceptron_learns_what_a_line_separates() -> None:
    for gate in (AND, OR):
        neuron, mistakes = learn_perceptron(INPUTS, gate(INPUTS))
        assert neuron(INPUTS).tolist() == gate(INPUTS).tolist() and mistakes[-1] == 0 and len(mistakes) < 10


def test_no_perceptron_is_xor() -> None:
    _, mistakes = learn_perceptron(INPUTS, xor(INPUTS), epochs=1000)
    assert len(mistakes) == 1000 and min(mistakes) > 0
    # by trying: no weights and threshold of a fine grid do it either
    w1, w2, threshold = torch.meshgrid(*(torch.linspace(-2, 2, 41) for _ in range(3)), indexing="ij")
    fires = INPUTS[:, 0, None] * w1.flatten() + INPUTS[:, 1, None] * w2.flatten() > threshold.flatten()
    assert not bool((fires == xor(INPUTS)[:, None].bool()).all(0).any())
