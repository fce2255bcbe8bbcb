"""The restricted Boltzmann machine: no couplings within the visible units, nor within the hidden ones.

Smolensky 1986; Hinton 2002, "Training products of experts by minimizing contrastive divergence" (CD); Tieleman 2008
(PCD); Salakhutdinov and Murray 2008 (annealed importance sampling, AIS).

    E(v, h) = -b . v - c . h - v^T W h,   v and h of 0 and 1              (1.15)
    p(h_j = 1 | v) = sigma(c_j + v^T W_j),  p(v_i = 1 | h) = sigma(b_i + W_i h)
    F(v) = -log sum over h of exp(-E(v, h)) = -b . v - sum_j softplus(c_j + v^T W_j)   (1.16)
    d/dW of -log p(v) = dF(v)/dW - <dF/dW>_model,  CD-k: of F(data) - F(sample)        (1.17)
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from weft.models.memories.boltzmann import all_states

Visible = Float[Tensor, "batch visible"]
Hidden = Float[Tensor, "batch hidden"]
PerRow = Float[Tensor, " batch"]


class RBM(nn.Module):
    """Visible units of 0 and 1, or probabilities between them as pixels are, and hidden units of 0 and 1.

    `steps` is the k of CD-k. With `chains` above 0, samples continue from where those of the last update ended (PCD).
    """

    chain: Tensor

    def __init__(self, visible: int, hidden: int, *, steps: int = 1, chains: int = 0) -> None:
        super().__init__()
        self.steps = steps
        self.weight = nn.Parameter(0.01 * torch.randn(visible, hidden))
        self.visible_bias = nn.Parameter(torch.zeros(visible))
        self.hidden_bias = nn.Parameter(torch.zeros(hidden))
        self.register_buffer("chain", torch.zeros(chains, hidden))

    def energy(self, v: Visible, h: Hidden) -> PerRow:
        """(1.15)."""
        return -v @ self.visible_bias - h @ self.hidden_bias - ((v @ self.weight) * h).sum(-1)

    def free_energy(self, v: Visible) -> PerRow:
        """F(v) of (1.16)."""
        return -v @ self.visible_bias - F.softplus(self.inputs(v)).sum(-1)

    def inputs(self, v: Visible) -> Hidden:
        """What the hidden units receive; its sigmoid is p(h = 1 | v)."""
        return torch.addmm(self.hidden_bias, v, self.weight)

    def reconstruct(self, h: Hidden) -> Visible:
        """p(v = 1 | h)."""
        return torch.addmm(self.visible_bias, h, self.weight.T).sigmoid_()

    def contrast(self, v: Visible) -> Float[Tensor, ""]:
        """The sum over the rows of F(data) - F(sample), whose gradient is that of CD-k or PCD-k (1.17): samples are
        constants. If there are more chains than rows, or fewer, their mean counts."""
        x, inputs = self.phases(v)
        free_energies = -x @ self.visible_bias - F.softplus(inputs).sum(-1)
        return free_energies[: len(v)].sum() - len(v) * free_energies[len(v) :].mean()

    def phases(self, v: Visible) -> tuple[Float[Tensor, "both visible"], Float[Tensor, "both hidden"]]:
        """The data followed by the samples, and the inputs of the hidden units for each."""
        if not len(self.chain):
            inputs = self.inputs(v)
            sample = self.gibbs(draw(inputs.detach().sigmoid()), self.steps)
            return torch.cat([v, sample]), torch.cat([inputs, self.inputs(sample)])
        x = torch.cat([v, self.gibbs(self.chain, self.steps)])
        inputs = self.inputs(x)
        self.chain.copy_(draw(inputs.detach()[len(v) :].sigmoid()))
        return x, inputs

    @torch.no_grad()
    def update(self, v: Visible, rate: float) -> None:
        """A step of plain gradient descent on the mean of `contrast`, without autograd, for speed."""
        x, inputs = self.phases(v)
        p = inputs.sigmoid_()
        p[len(v) :] *= -len(v) / (len(x) - len(v))
        alpha = rate / len(v)
        self.weight.addmm_(x.T, p, alpha=alpha)
        self.hidden_bias.add_(p.sum(0), alpha=alpha)
        self.visible_bias.add_(v.mean(0) - x[len(v) :].mean(0), alpha=rate)

    @torch.no_grad()
    def gibbs(self, h: Hidden, steps: int) -> Visible:
        """Alternate v given h and h given v, and return the last v."""
        v = draw(self.reconstruct(h))
        for _ in range(steps - 1):
            v = draw(self.reconstruct(draw(self.inputs(v).sigmoid())))
        return v

    def pseudo_log_likelihood(self, v: Visible, units: Int[Tensor, " batch"] | None = None) -> PerRow:
        """log p(v_i | the others) of one unit a row, random unless given, times the number of units: an estimate of
        the sum over all of them. v is rounded to 0 and 1."""
        v = v.round()
        units = torch.randint(v.size(1), (len(v),), device=v.device) if units is None else units
        flipped = v.scatter(1, units[:, None], 1 - v.gather(1, units[:, None]))
        return v.size(1) * F.logsigmoid(self.free_energy(flipped) - self.free_energy(v))

    @torch.no_grad()
    def exact_log_z(self) -> float:
        """log Z by a sum over all states of the hidden units, of which there may be 24."""
        hidden, parts = self.hidden_bias.numel(), []
        for first in range(0, 2**hidden, 2**13):
            h = all_states(hidden, 0.0, first=first, count=2**13).to(self.weight.dtype)
            inputs = torch.addmm(self.visible_bias, h, self.weight.T)
            parts.append((h @ self.hidden_bias + F.softplus(inputs).sum(-1)).double().logsumexp(0))
        return float(torch.stack(parts).logsumexp(0))

    @torch.no_grad()
    def ais_log_z(
        self, base: Float[Tensor, " visible"], *, chains: int = 100, temperatures: int = 10_000
    ) -> tuple[float, float]:
        """Estimate log Z and its standard error by annealed importance sampling, in `temperatures` steps from
        independent visible units with these biases, such as the log odds of the mean of the data."""
        base = base.to(self.weight.dtype)
        slope = self.visible_bias - base
        v = draw(base.sigmoid().expand(chains, -1))
        weights = torch.zeros(chains, dtype=torch.float64)
        for step in range(temperatures):
            before, beta, inputs = step / temperatures, (step + 1) / temperatures, self.inputs(v)
            weights += v @ slope / temperatures
            weights += (F.softplus(beta * inputs) - F.softplus(before * inputs)).sum(-1)
            h = draw((beta * inputs).sigmoid())
            v = draw(torch.addmm(base + beta * slope, h, self.weight.T, alpha=beta).sigmoid_())
        log_base = float(F.softplus(base.double()).sum()) + self.hidden_bias.numel() * math.log(2)
        shares = (weights - weights.max()).exp()
        error = float(shares.std() / shares.mean()) / math.sqrt(chains)
        return log_base + float(weights.max() + shares.mean().log()), error


def draw(probabilities: Float[Tensor, "batch units"]) -> Float[Tensor, "batch units"]:
    """1 with these probabilities, otherwise 0."""
    return (torch.rand_like(probabilities) < probabilities).to(probabilities.dtype)
