"""Pictures as PNG files in memory, written without a library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

KINDS = {1: 0, 3: 2, 4: 6}  # what PNG calls so many channels


def png(picture: np.ndarray) -> bytes:
    """A picture (h, w), (h, w, 3) or (h, w, 4) of 0 to 255 as a PNG file."""
    picture = np.ascontiguousarray(picture, dtype=np.uint8)
    height, width = picture.shape[:2]
    channels = 1 if picture.ndim == 2 else picture.shape[2]
    head = struct.pack(">IIBBBBB", width, height, 8, KINDS[channels], 0, 0, 0)
    body = zlib.compress(filtered(picture.reshape(height, width * channels), channels), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def filtered(lines: np.ndarray, step: int) -> bytes:
    """Every line as what it differs by from the pixel to the left, the one above or a guess from both, whichever is least."""
    left, above, corner = np.zeros_like(lines), np.zeros_like(lines), np.zeros_like(lines)
    left[:, step:], above[1:], corner[1:, step:] = lines[:, :-step], lines[:-1], lines[:-1, :-step]
    a, b, c = (each.astype(np.int16) for each in (left, above, corner))
    near = np.abs(b - c), np.abs(a - c), np.abs(a + b - 2 * c)  # how far the guess a + b - c is from each of the three
    guess = np.where((near[0] <= near[1]) & (near[0] <= near[2]), left, np.where(near[1] <= near[2], above, corner))
    ways = {0: lines, 1: lines - left, 2: lines - above, 4: lines - guess}  # by their numbers in PNG
    costs = np.stack([np.abs(each.view(np.int8).astype(np.int32)).sum(1) for each in ways.values()])
    best, names = costs.argmin(0), list(ways)
    made = np.stack(list(ways.values()))[best, np.arange(len(lines))]
    return np.concatenate([np.array(names, dtype=np.uint8)[best][:, None], made], axis=1).tobytes()


def chunk(name: bytes, data: bytes) -> bytes:
    """One part of a PNG file: its length, its name, what it holds and a checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def uri(picture: np.ndarray) -> str:
    """A picture as an address that holds it whole."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode("ascii")
