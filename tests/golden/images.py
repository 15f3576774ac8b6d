#!/usr/bin/env python3
"""Writes small data sets in the formats of MNIST and CIFAR-10 into a folder: images.idx, labels.idx
(20 of 4 x 4 pixels), cifar.bin (two files of 6 rows)."""
import os, struct, sys

folder = sys.argv[1]
state = 1


def byte():
    global state
    state = (state * 1103515245 + 12345) % 2**31
    return state >> 16 & 255


def write(name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


write("images.idx", struct.pack(">4I", 0x803, 20, 4, 4) + bytes(byte() for _ in range(320)))
write("labels.idx", struct.pack(">2I", 0x801, 20) + bytes(byte() % 5 for _ in range(20)))
write("few-labels.idx", struct.pack(">2I", 0x801, 19) + bytes(19))
for part in "ab":
    write(f"cifar-{part}.bin",
          b"".join(bytes([byte() % 10]) + bytes(byte() for _ in range(3072)) for _ in range(6)))
