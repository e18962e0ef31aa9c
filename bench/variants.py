"""The variants that a benchmark adds to plain attention: windows, softcap, ALiBi, sinks, dropout; for fa2,
FlexAttention and float32 maths."""
import math
from dataclasses import dataclass
from typing import Any, Optional


def add_arguments(p):
    p.add_argument("--window-left", type=int, help="keys before its own that a query sees")
    p.add_argument("--window-right", type=int, help="keys after its own that a query sees")
    p.add_argument("--softcap", type=float, default=0.0, help="scores become softcap * tanh(score / softcap)")
    p.add_argument("--alibi", action="store_true", help="slopes 2^(-8 h / heads), as in the paper")
    p.add_argument("--sinks", action="store_true", help="a logit a head, N(0, 1)")
    p.add_argument("--dropout", type=float, default=0.0, help="of this probability; peers draw masks of their own")


@dataclass
class Variants:
    window_left: Optional[int] = None
    window_right: Optional[int] = None
    softcap: float = 0.0
    slopes: Any = None  # float32 (heads) on the GPU, or None
    sinks: Any = None
    dropout: float = 0.0
    score_text: int = 0  # Library.make_score_text()
    captures: Any = ()  # the tensors of its captures
    kept: Any = None  # fa2's mask, uint8 (batch, heads, queries, keys); only during the check of results

    @classmethod
    def of(cls, a, heads):
        import torch

        slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1, device="cuda") / heads) if a.alibi else None
        sinks = torch.randn(heads, device="cuda") if a.sinks else None
        return cls(a.window_left, a.window_right, a.softcap, slopes, sinks, a.dropout)

    def any(self):
        return self.dropout != 0 or self.is_unknown_to_peers()

    def is_unknown_to_peers(self):
        """Returns whether FlexAttention is the only backend of PyTorch that can compute the variant."""
        return self.scores_change() or self.has_window() or self.sinks is not None

    def has_window(self):
        return self.window_left is not None or self.window_right is not None

    def scores_change(self):
        return self.softcap != 0 or self.slopes is not None

    def visible(self, i, j, causal):
        """Returns whether queries i see keys j, for equally long sequences. i and j are tensors that broadcast."""
        seen = (j <= i) if causal else (j > -1)
        if self.window_left is not None:
            seen = seen & (j >= i - self.window_left)
        if self.window_right is not None:
            seen = seen & (j <= i + self.window_right)
        return seen

    def modified(self, score, head, i, j):
        """Returns scaled scores after softcap and ALiBi."""
        if self.softcap != 0:
            score = self.softcap * (score / self.softcap).tanh()
        if self.slopes is not None:
            score = score - self.slopes[head] * (i - j).abs()
        return score

    def pairs(self, seqlen, causal):
        """Returns the visible pairs of query and key; half of the square if only causal."""
        if not self.has_window():
            return seqlen**2 * (0.5 if causal else 1)
        right = 0 if causal else seqlen if self.window_right is None else self.window_right
        left = seqlen if self.window_left is None else self.window_left
        return sum(min(seqlen, i + right + 1) - max(0, i - left) for i in range(seqlen))

    def flex(self, q, k, v, causal, grouped):
        """Returns a function that runs FlexAttention, compiled for these tensors. A sink scales the output by its share
        of the sum."""
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask, score_mod, seqlen = None, None, q.shape[2]
        if causal or self.has_window():
            mask = create_block_mask(lambda b, h, i, j: self.visible(i, j, causal), None, None, seqlen, seqlen, device="cuda")
        if self.scores_change():
            score_mod = lambda s, b, h, i, j: self.modified(s, h, i, j)  # noqa: E731
        torch._dynamo.reset()  # compiles a kernel for exactly this shape
        compiled = torch.compile(flex_attention, dynamic=False)

        def run():
            if self.sinks is None:
                return compiled(q, k, v, score_mod=score_mod, block_mask=mask, **grouped)
            o, lse = compiled(q, k, v, score_mod=score_mod, block_mask=mask, return_lse=True, **grouped)
            return o * torch.sigmoid(lse - self.sinks[None, :, None]).unsqueeze(-1).to(o.dtype)

        return run

    def probabilities(self, scores, batch, head, rows, causal):
        """Returns the probabilities for one head's scaled scores (rows, keys), after dropout. `rows` is a slice of the
        queries."""
        import torch

        seqlen = scores.shape[1]
        j = torch.arange(seqlen, device="cuda")
        i = j[rows, None]
        scores = self.modified(scores, head, i, j[None, :]).masked_fill(~self.visible(i, j[None, :], causal), -math.inf)
        if self.sinks is not None:
            scores = torch.cat([scores, self.sinks[head].expand(scores.shape[0], 1)], -1)
        p = torch.softmax(scores, -1)[:, :seqlen]
        return p if self.kept is None else p * self.kept[batch, head, rows] / (1 - self.dropout)
