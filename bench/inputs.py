"""Classes of inputs that benchmarks are run on: N(0,1), and what makes rows of scores peaked."""

# Keys and values are N(0,1), and queries are N(0,1) times the number after the x. With "sink" the first key dominates
# every row. With "drift" scores grow along the keys.
CLASSES = ("x1", "x2", "x4", "x12", "sink", "drift")


def tensors(pt, dtype):
    """Returns Q, K and V of (batch, heads, seqlen, dim), of the class pt["inputs"]."""
    import torch

    shape = lambda h: (pt["batch"], pt["seqlen"], h, pt["d"])  # noqa: E731
    make = lambda h: torch.randn(shape(h), device="cuda", dtype=dtype).transpose(1, 2)  # noqa: E731
    q, k, v = make(pt["heads_q"]), make(pt["heads_kv"]), make(pt["heads_kv"])
    if pt["inputs"] in ("sink", "drift"):
        direction = torch.nn.functional.normalize(torch.randn(pt["d"], device="cuda"), dim=0).to(dtype)
        if pt["inputs"] == "sink":
            q += 6 * direction
            k[:, :, 0] = 10 * pt["d"] ** 0.25 * direction
        else:
            q += 4 * direction
            k += torch.linspace(-8, 8, pt["seqlen"], device="cuda", dtype=dtype)[:, None] * direction
    else:
        q *= int(pt["inputs"][1:])
    return q, k, v


def limit_factor(name):
    """Returns how much larger errors may be than those of N(0,1) inputs, whose outputs are smaller."""
    return int(name[1:]) if name[0] == "x" else 4
