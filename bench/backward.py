"""Times the gradients of Q, K and V for bench/compare.py --backward and --train, by fa2, by PyTorch's backends, and by
FlashAttention-4 (PyPI's flash-attn-4) if it is installed. Backward operators are called as autograd calls them, with the
tensors that their own forwards saved. d_out is N(0,1)."""
import math

import variants


def flash(q, k, v, d_out, causal, dropout):
    """Returns the forward, and the backward that takes the forward's results."""
    import torch

    aten = torch.ops.aten

    def backward(o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _):
        return aten._scaled_dot_product_flash_attention_backward(
            d_out, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, dropout, causal, seed, offset)

    return lambda: aten._scaled_dot_product_flash_attention(q, k, v, dropout, causal, False), backward


def cudnn(q, k, v, d_out, causal, dropout):
    import torch

    aten = torch.ops.aten

    def backward(o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _):
        return aten._scaled_dot_product_cudnn_attention_backward(
            d_out, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, dropout, causal)

    return lambda: aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, dropout, causal, False), backward


def flash_attention_4(q, k, v, d_out, causal, dropout):
    from flash_attn.cute import interface

    q, k, v, d_out = (t.transpose(1, 2) for t in (q, k, v, d_out))

    def forward():
        return interface._flash_attn_fwd(q, k, v, causal=causal, return_lse=True)[:2]

    def backward(o, lse):
        return [t.transpose(1, 2) for t in interface._flash_attn_bwd(q, k, v, o, d_out, lse, causal=causal)]

    return forward, backward


def peers_of(variant):
    """Returns name -> function, of the peers that compute this variant."""
    if variant.is_unknown_to_peers():
        return {}
    peers = {"FLASH": flash, "CUDNN": cudnn}
    if variant.any():
        return peers
    try:
        import flash_attn.cute  # noqa: F401
    except ImportError:
        return peers
    return dict(peers, FA4=flash_attention_4)


class Maths:
    """Computes gradients by autograd through plain maths, and errors against float32, for the first and the last
    key/value head."""

    def __init__(self, pt, q, k, v, d_out, variant):
        import torch

        self.pt, self.tensors, self.variant = pt, (q, k, v, d_out), variant
        self.group = pt["heads_q"] // pt["heads_kv"]
        self.expected = {at: self.gradients(*at, torch.float32) for at in {(0, 0), (pt["batch"] - 1, pt["heads_kv"] - 1)}}

    def gradients(self, b, head, dtype):
        """Returns (dq, dk, dv) of a key/value head and of the query heads that read it."""
        import torch

        leaf = lambda t: t.detach().to(dtype).requires_grad_()  # noqa: E731
        q, k, v, d_out = (t[b] for t in self.tensors)
        keys, values, dq = leaf(k[head]), leaf(v[head]), []
        for h in range(head * self.group, (head + 1) * self.group):
            queries = leaf(q[h])
            scores = queries @ keys.T / math.sqrt(self.pt["d"])
            p = self.variant.probabilities(scores, b, h, slice(None), self.pt["causal"]).to(dtype)
            (p @ values).backward(d_out[h].to(dtype))
            dq.append(queries.grad)
        return torch.stack(dq), keys.grad, values.grad

    def worst(self, of):
        """Returns the largest errors of dq, dk and dv; NaN if an element is NaN. `of` maps (batch, head) to their
        gradients."""
        import torch

        errors = [[(g.float() - e).abs().max().item() for g, e in zip(of(*at), expected)] for at, expected in self.expected.items()]
        return torch.tensor(errors).amax(0).tolist()

    def errors(self, dq, dk, dv):
        return self.worst(lambda b, h: (dq[b, h * self.group:(h + 1) * self.group], dk[b, h], dv[b, h]))

    def errors_in_16_bits(self):
        return self.worst(lambda b, h: self.gradients(b, h, self.tensors[0].dtype))


class Backward:
    """A backward at one point, with the same methods as compare.Forward."""

    title, forwards = "Backward", 2.5  # a backward's operations relative to a forward's: five products instead of two

    def __init__(self, pt, q, k, v, variant, a):
        import torch

        shape = (pt["batch"], pt["seqlen"], pt["heads_q"], pt["d"])
        self.pt, self.inputs, self.variant = pt, (q, k, v), variant
        self.d_out = torch.randn(shape, device="cuda", dtype=q.dtype).transpose(1, 2)
        self.maths, self.systems, self.errors, self.refusals = Maths(pt, q, k, v, self.d_out, variant), {}, {}, {}
        for name, system in peers_of(variant).items():
            try:
                run = self.timed(*system(q, k, v, self.d_out, pt["causal"], variant.dropout))
                gradients = run()
                if not variant.dropout:  # a peer's mask is not known
                    self.errors[name] = self.maths.errors(*gradients)
                self.systems[name] = run
            except (RuntimeError, AssertionError) as error:  # a backend may refuse a shape in its own way
                self.refusals[name] = error
        self.yardsticks = list(self.errors.values()) or [self.maths.errors_in_16_bits()]

    def timed(self, forward, backward):
        """Returns the function to time: the backward alone, after one run of the forward."""
        left = forward() or ()
        return lambda: backward(*left)

    def peers(self, library):
        if self.variant.any():
            self.systems["plain"], _ = self.plan(library, variants.Variants())
        return self.systems

    def plan(self, library, variant=None):
        import torch

        variant = variant or self.variant
        q, k, v = self.inputs
        self.out, *self.gradients = (torch.full_like(t, math.nan) for t in (q, q, k, v))
        lse = torch.empty(q.shape[:3], device="cuda", dtype=torch.float32)
        forward, first = library.plan(q, k, v, self.out, self.pt["causal"], lse=lse, variant=variant)
        run, then = library.backward_plan(q, k, v, self.out, lse, self.d_out, self.gradients, self.pt["causal"], variant=variant)
        return self.timed(forward, run), self.explained(first, then)

    def explained(self, forward, backward):
        return backward

    def check(self, name):
        """Checks that each gradient's error is at most three times the smallest of the peers', or if there is none, of
        plain 16-bit maths."""
        self.errors[name] = self.maths.errors(*self.gradients)
        for gradient, error, *others in zip(("dq", "dk", "dv"), self.errors[name], *self.yardsticks):
            limit = 3 * min(e for e in others if e == e)
            if not error <= limit:
                raise SystemExit(f"{name} is wrong at {self.pt}: error of {gradient} {error}, limit {limit}; nothing is timed")
