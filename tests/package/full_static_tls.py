"""Loads a library into a process without room for thread-local storage of the initial-exec model. A process that has
loaded PyTorch can be like that. Usage: full_static_tls.py LIBRARY WORK_DIR"""
import ctypes
import os
import shutil
import subprocess
import sys

library, work = sys.argv[1:]
ctypes.CDLL("libstdc++.so.6")  # allocates its own storage on first use, which must come before


def fill(size):
    """Loads copies of a library with `size` bytes of such storage, until one finds no room."""
    source, first = os.path.join(work, "filler.cpp"), os.path.join(work, f"filler{size}.so")
    with open(source, "w") as file:
        file.write(f'extern "C" {{ __thread char block[{size}] __attribute__((tls_model("initial-exec"))); char* use() {{ return block; }} }}\n')
    subprocess.run(["c++", "-shared", "-fPIC", source, "-o", first], check=True)
    for copy in range(1000):
        path = shutil.copy(first, os.path.join(work, f"filler{size}-{copy}.so"))
        try:
            ctypes.CDLL(path)
        except OSError as error:
            if "static TLS" not in str(error):
                raise
            return
    sys.exit("there is always room")


fill(64)
fill(8)
ctypes.CDLL(os.path.abspath(library))
