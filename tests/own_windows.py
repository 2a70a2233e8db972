"""A modality of one's own, its features: windows of a signal. Included in the page about it."""

import copy

import numpy as np
import torch

import aimwise
from aimwise.batch import Batch
from aimwise.errors import BadFeatures, BadSetting


class Windows(aimwise.Features):
    """Signals (n, t) cut into windows of equal length; a window that is taken away becomes a line at the mean."""

    kind = "series"  # which networks read them
    fills = ("mean",)
    random = False  # the fill is the same whenever it is asked for
    soft = torch.tensor(True)  # a window may be kept by a share: it is then pressed towards the mean

    def __init__(self, length: int, *, fill: str = "mean"):
        self.length, self.fill = length, fill

    def _check_settings(self):
        if self.fill not in self.fills:
            raise BadSetting(f"fill={self.fill!r}, wanted 'mean'.")

    def fit(self, inputs):
        self._check_settings()
        signals = np.asarray(inputs, dtype=np.float32)
        if signals.ndim != 2 or signals.shape[1] % self.length:
            raise BadFeatures(f"Got signals of shape {signals.shape}, wanted (n, t) with t a multiple of {self.length}.")
        new = copy.copy(self)
        new.size, new.mean, new.scale = signals.shape[1], float(signals.mean()), float(signals.std())
        return new

    @property
    def fitted(self):
        return hasattr(self, "size")

    @property
    def names(self):
        return tuple(f"{start}-{start + self.length - 1}" for start in range(0, self.size, self.length))

    @property
    def layout(self):
        return self.size, self.length  # what the networks are built from

    def encode(self, inputs):
        signals = np.asarray(inputs, dtype=np.float32)
        if signals.shape[1:] != (self.size,):
            raise BadFeatures(f"Got signals of shape {signals.shape}, wanted (n, {self.size}).")
        present = torch.ones(len(signals), len(self.names), dtype=torch.bool)
        return Batch(torch.from_numpy((signals - self.mean) / self.scale), present, signals)

    def spread(self, batch, z):
        return z.repeat_interleave(self.length, -1)  # a window's gate at each of its points

    def dim(self, batch, z, rng):
        gate = self.spread(batch, z).cpu().numpy()
        return gate * batch.raw + (1 - gate) * self.mean  # what the model is asked about

    def values(self, batch):
        return batch.raw.reshape(len(batch), -1, self.length).mean(2)  # for people to read

    def config(self):
        return {name: getattr(self, name) for name in ("length", "fill", "size", "mean", "scale")}

    def tensors(self):
        return {}

    @classmethod
    def restore(cls, config, tensors):
        new = cls(config["length"], fill=config["fill"])
        new.size, new.mean, new.scale = config["size"], config["mean"], config["scale"]
        return new
