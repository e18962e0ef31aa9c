"""Replaces functions that another library's classes use. The library is a module made up here."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from fa2._substitute import refuse, substitute

SOURCE = '''
def kernel():
    return "theirs"

def through():
    return kernel()

class Base:
    def name(self):
        return "base"

class Attention(Base):
    """What it is."""
    kind = "attention"

    def __init__(self, *, scale=2):
        self.scale = scale

    def name(self, suffix="!"):
        return super().name() + suffix

    def call(self):
        return kernel(), through(), [kernel() for _ in range(2)], (lambda: kernel())()

    @staticmethod
    def alone():
        return kernel()

    @classmethod
    def of_class(cls):
        return cls.kind, kernel()
'''


@pytest.fixture
def library(monkeypatch: Any) -> Any:
    module = types.ModuleType("some_library")
    exec(SOURCE, vars(module))
    monkeypatch.setitem(sys.modules, "some_library", module)
    return module


def test_methods_and_what_they_call_find_the_substitute(library: Any) -> None:
    made = substitute(library.Attention, kernel=lambda: "fa2's", more=1)
    assert issubclass(made, library.Attention) and made.__name__ == "Attention" and made.__doc__ == "What it is."
    instance = made(scale=3)
    assert (instance.scale, made().scale, instance.name(), instance.name("?")) == (3, 2, "base!", "base?")
    assert instance.call() == ("fa2's", "fa2's", ["fa2's"] * 2, "fa2's")
    assert made.alone() == instance.alone() == "fa2's" and made.of_class() == ("attention", "fa2's")


def test_the_library_stays_as_it_is(library: Any) -> None:
    before = dict(vars(library))
    substitute(library.Attention, kernel=lambda: "fa2's", more=1)
    assert vars(library) == before
    assert library.Attention().call() == ("theirs", "theirs", ["theirs"] * 2, "theirs")


def test_refuse() -> None:
    refuse("this", a=None, b=False)
    with pytest.raises(NotImplementedError, match="a, c = given by this, must be None on fa2"):
        refuse("this", a=0, b=None, c=True)
