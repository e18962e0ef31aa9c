"""The command, run as `python -m fa2` and as the script `fa2`; and NVRTC installed by pip."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fa2
from fa2 import _bench, _core, _nvrtc
from fa2.__main__ import main

ROOT = pathlib.Path(__file__).parents[2]

NVRTC = fa2.machine()["nvrtc"]


def run(*arguments: str, **variables: str) -> str:
    """Returns the command's output. If the command fails, the test fails with its message."""
    command = [sys.executable, "-m", "fa2", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert found.returncode == 0, found.stderr
    return found.stdout


VERBS = ["info", "doctor", "bench", "precompile", "explain", "tune", "cache"]


def assert_fits(text: str) -> None:
    """Checks that lines have at most 80 columns. A line of a single word, such as a path, may be longer."""
    assert text and not [line for line in text.splitlines() if len(line) > 80 and len(line.split()) > 1]


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str) -> None:
    text = run(verb, "--help")
    assert_fits(text)
    text = " ".join(text.split())
    assert f"example: python -m fa2 {verb}" in text and "--json" in text


def test_help_names_every_verb() -> None:
    text = run("--help")
    assert_fits(text)
    assert set(VERBS) <= set(text.split())


def test_the_script_is_the_same_command() -> None:
    (declared,) = re.findall(r'\[project.scripts\]\nfa2 = "(.*)"', (ROOT / "pyproject.toml").read_text())
    module, function = declared.split(":")
    call = f"import sys; sys.argv[0] = 'bin/fa2'; from {module} import {function}; sys.exit({function}(['cache', '--help']))"
    found = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
    assert "example: fa2 cache" in found.stdout, found.stderr


def test_the_installed_script_runs() -> None:
    script = pathlib.Path(sys.executable).with_name("fa2")
    if not script.exists():
        pytest.skip("fa2-attention is not installed: fa2 was imported from a folder")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout.strip() == fa2.__version__


def test_doctor_computes_on_what_there_is() -> None:
    text = run("doctor")
    assert_fits(text)
    lines = dict(line.split(maxsplit=1) for line in text.splitlines() if not line.startswith((" ", "!")))
    assert lines["version"] == fa2.__version__
    assert lines["self-test"].startswith("ok")


def test_explain_shows_what_runs() -> None:
    problem = ["--seqlen-q", "16", "--seqlen-k", "32", "--head-dim", "8", "--heads", "2", "--heads-kv", "1", "--device", "interpreter"]
    problem += ["--causal", "--window-left", "9", "--attention-chunk", "11", "--softcap", "--alibi", "--sinks", "--varlen", "--page-size", "16"]
    text = run("explain", *problem)
    assert_fits(text)
    lines = dict(line.split(maxsplit=1) for line in text.splitlines() if not line.startswith(" "))
    assert lines["kernel"] == "fa2_attention_forward" and {"origin", "reason", "resources"} <= set(lines)
    found = json.loads(run("explain", "--json", *problem))["problem"]
    expected = dict(seqlen_q=16, seqlen_k=32, head_dim=8, heads_q=2, heads_kv=1, mask="causal_bottom_right", page_size=16)
    expected.update(window_left=9, attention_chunk=11, softcap=True, alibi=True, sinks=True, varlen=True, dropout=False, batch=1)
    assert {name: found[name] for name in expected} == expected


def test_cache_lists_verifies_and_prunes(tmp_path: Any) -> None:
    place = ("--dir", str(tmp_path))
    run("explain", "--seqlen", "16", "--head-dim", "8", "--device", "interpreter", FA2_CACHE_DIR=str(tmp_path))
    table = run("cache", "list", *place)
    assert_fits(table)
    listed = json.loads(run("cache", "list", "--json", *place))
    assert listed["entries"][0]["key"][:8] in table and listed["damaged"] == 0
    assert run("cache", "verify", *place).strip().endswith("0 damaged")
    path = pathlib.Path(listed["entries"][0]["path"])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    broken = subprocess.run([sys.executable, "-m", "fa2", "cache", "verify", *place], capture_output=True, text=True)
    assert broken.returncode == 1 and broken.stdout.strip().endswith("1 damaged")
    assert json.loads(run("cache", "prune", "--json", "--max-mb", "0", *place))["removed_files"] >= 1
    assert json.loads(run("cache", "list", "--json", *place))["entries"] == []


def test_bench_measures_each_combination(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, Any]] = []

    def measure(**problem: Any) -> list[dict[str, Any]]:
        asked.append(problem)
        return [{"name": name, "us": 123456.7, "tflops": 1234.5, "over fa2": 10.123} for name in ("fa2", "SDPA")]

    monkeypatch.setattr(_bench, "measure", measure)
    arguments = ["bench", "--head-dim", "64,256", "--seqlen", "16384", "--causal", "--hidden", "4096", "--heads-kv", "8"]
    assert main([*arguments, "--backward", "--dtype", "f16,bf16"]) == 0
    assert_fits(capsys.readouterr().out)
    assert [(x["dtype"], x["head_dim"], x["heads"]) for x in asked] == [
        ("float16", 64, 64),
        ("float16", 256, 16),
        ("bfloat16", 64, 64),
        ("bfloat16", 256, 16),
    ]
    assert all(x["causal"] is True and x["batch"] == 1 and x["heads_kv"] == 8 and x["backward"] for x in asked)


def test_variants_of_precompile_are_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Any] = []
    monkeypatch.setattr(_core, "precompile", lambda given, *_: problems.extend(given) or "[]")
    assert main(["precompile", "--arch", "sm_80", "--causal", "no", "--window-left", "both", "--softcap", "--sinks", "no"]) == 0
    kinds = {(p["head_dim"], p["dtype"], p["has_window_left"], p["softcap"], p["sinks"], p["mask"]) for p in problems}
    assert kinds == {(d, t, w, 1, 0, 0) for d in (64, 128) for t in (0, 1) for w in (0, 1)} and len(problems) == 8


def test_chunks_are_a_variant_of_precompile(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Any] = []
    monkeypatch.setattr(_core, "precompile", lambda given, *_: problems.extend(given) or "[]")
    assert main(["precompile", "--arch", "sm_80", "--head-dim", "64", "--attention-chunk", "both"]) == 0
    assert {p["has_attention_chunk"] for p in problems} == {0, 1}


def test_8_bit_keys_and_values_have_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Any] = []
    monkeypatch.setattr(_core, "precompile", lambda given, *_: problems.extend(given) or "[]")
    for option, kv_type in (([], 0), (["--kv-type", "same"], 0), (["--kv-type", "e4m3"], 1)):
        problems.clear()
        assert main(["precompile", "--arch", "sm_80", *option]) == 0
        assert {p["kv_type"] for p in problems} == {kv_type}


def test_latents_have_options(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Any] = []
    monkeypatch.setattr(_core, "precompile", lambda given, *_: problems.extend(given) or "[]")
    dims = ["--head-dim", "576", "--head-dim-v", "512"]
    assert main(["precompile", "--arch", "sm_80", *dims, "--values-in-keys"]) == 0
    assert {(p["head_dim"], p["head_dim_v"], p["values_in_keys"]) for p in problems} == {(576, 512, 1)}
    found = json.loads(run("explain", *dims, "--values-in-keys", "--seqlen", "16", "--device", "interpreter", "--json"))
    assert found["problem"]["head_dim_v"] == 512 and found["problem"]["values_in_keys"] is True


def test_json_is_what_the_table_shows() -> None:
    found = json.loads(run("info", "--json"))
    assert found["version"] == fa2.__version__ and found["python"] == sys.version.split()[0]
    assert set(found) >= {"driver", "gpus", "nvrtc", "cache", "torch", "numpy"}


def test_errors_are_a_line_and_an_exit_code() -> None:
    command = [sys.executable, "-m", "fa2", "precompile", "--arch", "sm_12", "--head-dim", "64"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr.startswith("fa2: ") and found.stdout == "" and "sm_12" in found.stderr and "Traceback" not in found.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["explain", "--device", "cuda:99"], "--device = cuda:99"),
        (["explain", "--device", "gpu"], "device = gpu, must be"),
        (["tune", "--dtype", "fp8"], "dtype = fp8, must be f16 or bf16"),
        (["explain", "--kv-type", "fp8"], "--kv-type: invalid choice: 'fp8'"),
        (["explain", "--values-in-keys", "--head-dim-v", "136"], "--head-dim-v = 136, must be at most --head-dim = 128"),
        (["bench", "--seqlen", "1,x"], "list of int"),
        (["cache", "list", "--max-mb", "1"], "--max-mb belongs to prune"),
    ],
)
def test_wrong_options_are_a_line(arguments: list[str], said: str) -> None:
    found = subprocess.run([sys.executable, "-m", "fa2", *arguments], capture_output=True, text=True)
    assert found.returncode in (1, 2) and found.stdout == ""
    assert said in found.stderr.splitlines()[-1] and "Traceback" not in found.stderr


def test_nvrtc_of_pip_is_found() -> None:
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else [os.path.join(x, "cu13", "lib") for x in spec.submodule_search_locations or ()]
    if not any(os.path.exists(os.path.join(place, "libnvrtc.so.13")) for place in places):
        pytest.skip("nvidia-cuda-nvrtc is not installed: pip install nvidia-cuda-nvrtc")
    assert _nvrtc.directories()[0] in places
    assert os.path.dirname(NVRTC["path"]) in places


def test_nvrtc_is_not_looked_for_in_the_current_directory(tmp_path: Path) -> None:
    planted = tmp_path / "nvidia" / "cu13" / "lib"
    planted.mkdir(parents=True)
    (planted / "libnvrtc.so.13").write_text("")
    program = "from fa2 import _nvrtc\nprint(_nvrtc.directories())\n"
    (tmp_path / "program.py").write_text(program)
    for start in (["-c", program], ["-m", "program"]):
        found = subprocess.run([sys.executable, *start], cwd=tmp_path, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        assert str(tmp_path) not in found.stdout and "'nvidia" not in found.stdout
    command = [sys.executable, "-m", "fa2", "info", "--json"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0 and str(tmp_path) not in found.stdout


def test_nvrtc_is_looked_for_where_pip_installs(tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "nvidia" / "cu13" / "lib"
    place.mkdir(parents=True)
    program = "from fa2 import _nvrtc\nprint(_nvrtc.directories())\n"
    path = os.pathsep.join(filter(None, [str(tmp_path / "site-packages"), os.environ.get("PYTHONPATH")]))
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert str(place) in found.stdout


@pytest.mark.skipif("error" in NVRTC, reason=f"there is no NVRTC: {NVRTC.get('error')}")
def test_kernels_made_ahead_are_found_and_not_made_again(tmp_path: Any) -> None:
    arguments = ("precompile", "--arch", "sm_80", "--head-dim", "8", "--dtype", "f16", "--json", "--out", str(tmp_path))
    made = json.loads(run(*arguments))
    assert {kernel["origin"] for kernel in made} == {"compiled"}
    found = subprocess.run([sys.executable, "-m", "fa2", *arguments], capture_output=True, text=True)
    assert found.stderr.splitlines()[-1] == f"{len(made)} of {len(made)} kernels"
    again = json.loads(found.stdout)
    assert {kernel["origin"] for kernel in again} == {"disk_cache"}
    assert [kernel["key"] for kernel in again] == [kernel["key"] for kernel in made]
    seen: list[tuple[int, int]] = []
    fa2.precompile(
        ["sm_80"], head_dims=[8], dtypes=["float16"], out=str(tmp_path), progress=lambda *numbers: seen.append(numbers)
    )
    assert seen == [(done, len(made)) for done in range(1, len(made) + 1)]
    table = run(*arguments[:-3], "--out", str(tmp_path))
    assert_fits(table)
    assert made[0]["key"][:8] in table and table.splitlines()[-1].startswith(f"{len(made)} kernels, ")


def test_a_pack_of_what_a_program_asked_for_is_all_that_it_needs(tmp_path: Any) -> None:
    requests, pack, empty = (str(tmp_path / name) for name in ("requests.jsonl", "k.fa2pack", "empty"))
    program = "import fa2, numpy as np; x = np.ones((1, 16, 1, 64), np.float16); assert (fa2.attention(x, x, x) == 1).all()"

    def run_with(**variables: str) -> None:
        environment = {**os.environ, "FA2_DEVICE": "interpreter", **variables}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)

    run_with(FA2_LOG_REQUESTS=requests)
    made = fa2.precompile_requests(requests, exact=True, out=pack)
    assert [(kernel["arch"], kernel["error"]) for kernel in made] == [("interpreter", "")]
    run_with(FA2_CACHE_PATH=pack, FA2_CACHE_TRUST="host", FA2_JIT="off", FA2_CACHE_DIR=empty)
    assert not os.path.exists(empty)
    found = json.loads(run("cache", "verify", "--dir", pack, "--json"))
    assert [entry["key"] for entry in found["entries"]] == [made[0]["key"]] and found["damaged"] == 0
    with pytest.raises(fa2.InvalidRequest, match="archs = 80"):
        fa2.precompile_requests(requests, 80)  # type: ignore[arg-type]
