"""Hands fa2's log to the logger "fa2" of Python's logging, which decides what is shown and where."""

from __future__ import annotations

import atexit
import logging
import os

from . import _core

_LOGGER = logging.getLogger("fa2")
_LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL, logging.CRITICAL + 10)
_FORMATTER = logging.Formatter("[%(asctime)s.%(msecs)03d] %(name)s %(levelname)s: %(message)s", "%H:%M:%S")


def _print(level: int, message: str) -> None:
    handler = logging.StreamHandler()  # to the present sys.stderr
    handler.setFormatter(_FORMATTER)
    handler.handle(_LOGGER.makeRecord(_LOGGER.name, level, __file__, 0, message, (), None))


def deliver(level: int, message: str) -> None:
    """Logs one message, on stderr if the program has configured no handler. The extension calls this on any thread."""
    number = _LEVELS[level]
    if _LOGGER.hasHandlers():
        _LOGGER.log(number, message)
    elif _LOGGER.isEnabledFor(number):
        _print(number, message)


def install() -> None:
    """Takes the log until the interpreter exits. FA2_LOG sets the logger's level, unless the program has set it."""
    level = _core.take_log(True)
    if os.environ.get("FA2_LOG") and _LOGGER.level == logging.NOTSET:
        _LOGGER.setLevel(_LEVELS[level])
    atexit.register(_core.take_log, False)
