"""Compares fa2's signatures with those of flash_attn 2.8.4 and FlashAttention-3, which signatures.json lists."""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
from typing import Any

import pytest

pytest.importorskip("torch")

RECORDED: dict[str, dict[str, str]] = json.loads(pathlib.Path(__file__).with_name("signatures.json").read_text())


def written(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    return ", ".join(x.name if x.default is x.empty else f"{x.name}={x.default}" for x in parameters)


@pytest.mark.parametrize(
    "module, name", [(module, name) for module, functions in RECORDED.items() for name in functions]
)
def test_signature(module: str, name: str) -> None:
    function = getattr(importlib.import_module(f"fa2.{module}"), name)
    mine = written(function).removesuffix(", s_aux=None")
    assert mine == RECORDED[module][name]


@pytest.mark.parametrize("name", ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"])
@pytest.mark.parametrize("module", ["flash_attn_interface", "flash_attn_3_interface"])
def test_sinks_are_the_last_argument(module: str, name: str) -> None:
    function = getattr(importlib.import_module(f"fa2.{module}"), name)
    assert list(inspect.signature(function).parameters)[-1] == "s_aux"


def test_wrapped_names_are_the_functions() -> None:
    interface: Any = importlib.import_module("fa2.flash_attn_interface")
    for name in ("forward", "backward", "varlen_forward", "varlen_backward"):
        assert getattr(interface, f"_wrapped_flash_attn_{name}") is getattr(interface, f"_flash_attn_{name}")
    with pytest.raises(AttributeError, match="flash_attn_2_cuda.fwd"):
        interface.flash_attn_gpu.fwd
    assert interface.USE_TRITON_ROCM is False
