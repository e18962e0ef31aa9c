"""Tests streams, graphs, memory, threads and fork on a GPU. `pytest -m gpu`; skipped without a GPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402

pytestmark = pytest.mark.gpu


def qkv(seqlen: int = 512, batch: int = 2, seqlen_q: int | None = None) -> Any:
    shape = (batch, seqlen, 8, 128)
    k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return torch.randn(batch, seqlen_q or seqlen, 8, 128, dtype=torch.bfloat16, device="cuda"), k, v


def expected(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    tensors = (x.float().transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal).transpose(1, 2)


def test_numerics_and_gradients() -> None:
    tensors = tuple(x.requires_grad_() for x in qkv())
    out, reference = fa2.attention(*tensors, causal=True), expected(*tensors, causal=True)
    torch.testing.assert_close(out.float(), reference, atol=2e-2, rtol=2e-2)
    d_out = torch.randn_like(out)
    found = torch.autograd.grad(out, tensors, d_out)
    wanted = torch.autograd.grad(reference, tensors, d_out.float())
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b, atol=5e-2, rtol=5e-2)


def test_the_current_stream_is_used() -> None:
    q, k, v = qkv(2048)
    reference = fa2.attention(q, k, v)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late = q.clone()
        out = fa2.attention(late, k, v)
    side.synchronize()
    assert torch.equal(out, reference)


@pytest.mark.parametrize("seqlen_q", [512, 1], ids=["prefill", "decode"])
def test_graphs_capture_and_replay(seqlen_q: int) -> None:
    q, k, v = qkv(seqlen_q=seqlen_q)
    fa2.attention(q, k, v)  # makes the plan
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fa2.attention(q, k, v)
    for _ in range(3):
        q.normal_()
        graph.replay()
        fa2.attention(*qkv(seqlen_q=seqlen_q))  # eager calls between replays share no memory with them
        assert torch.equal(out, fa2.attention(q, k, v))


def test_dropout_in_a_graph_draws_anew() -> None:
    q, k, v = qkv()
    fa2.attention(q, k, v, dropout_p=0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fa2.attention(q, k, v, dropout_p=0.5)
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not torch.equal(first, out)


def test_a_plan_is_made_before_the_capture() -> None:
    q, k, v = qkv(seqlen=384, batch=3)
    with pytest.raises(fa2.Unavailable, match="before the capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        fa2.attention(q, k, v, softcap=3.0)


def test_no_memory_is_taken_in_the_steady_state() -> None:
    q, k, v = qkv(seqlen_q=1)
    for _ in range(10):
        out = fa2.attention(q, k, v)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    before = torch.cuda.memory_stats()
    for _ in range(10_000):
        out = fa2.attention(q, k, v, out=out)
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    for name in ("num_alloc_retries", "allocated_bytes.all.current", "reserved_bytes.all.current"):
        assert after[name] == before[name], name
    assert torch.cuda.mem_get_info()[0] == free


def test_threads_on_streams_of_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    tensors = qkv(1024)
    reference = fa2.attention(*tensors)
    torch.cuda.synchronize()

    def work(_: int) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()):
            same = all(torch.equal(fa2.attention(*tensors), reference) for _ in range(20))
            torch.cuda.current_stream().synchronize()
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def _in_a_child(queue: Any) -> None:
    tensors = qkv(64)
    queue.put(bool(torch.isfinite(fa2.attention(*tensors)).all()))


def test_spawned_processes() -> None:
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_in_a_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120)
    child.join()


def test_import_leaves_cuda_alone_for_fork() -> None:
    import subprocess
    import sys

    code = (
        "import os, torch, fa2\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    x = torch.ones(1, 16, 1, 64, dtype=torch.float16, device='cuda')\n"
        "    os._exit(0 if bool((fa2.attention(x, x, x) == 1).all()) else 1)\n"
        "sys_exit = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "raise SystemExit(sys_exit)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_several_gpus() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU alone")
    tensors = tuple(x.to("cuda:1") for x in qkv())
    assert torch.cuda.current_device() == 0
    torch.testing.assert_close(fa2.attention(*tensors).float(), expected(*tensors), atol=2e-2, rtol=2e-2)


def test_compiled_with_cuda_graphs() -> None:
    q, k, v = qkv()
    step = torch.compile(lambda q: fa2.attention(q, k, v) * 2, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        reference = fa2.attention(q, k, v) * 2
        for _ in range(4):
            out = step(q).clone()
        assert torch.equal(out, reference)
