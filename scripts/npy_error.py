"""Prints the largest difference between two .npy files (float16 or float32, same shape). Standard library only."""
import ast
import struct
import sys


def load(path):
    with open(path, "rb") as f:
        if f.read(6) != b"\x93NUMPY":
            raise SystemExit(f"{path} is no .npy file")
        major = f.read(2)[0]
        size = struct.unpack("<H", f.read(2))[0] if major == 1 else struct.unpack("<I", f.read(4))[0]
        header = ast.literal_eval(f.read(size).decode())
        code = {"<f2": "e", "<f4": "f"}[header["descr"]]
        data = f.read()
        return header["shape"], struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


shape, ours = load(sys.argv[1])
reference_shape, reference = load(sys.argv[2])
if shape != reference_shape:
    raise SystemExit(f"shapes differ: {shape} and {reference_shape}")
error = max(abs(a - b) for a, b in zip(ours, reference))
print(f"largest difference from PyTorch's float32 output: {error:.2e} over {len(ours)} values")
sys.exit(not error < 5e-3)
