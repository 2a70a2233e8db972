"""A modality of one's own, its networks E, S and G. Included in the page about it."""

import torch
from torch import nn


def over_time(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(inputs, 32, 5, padding=2), nn.GELU(), nn.Conv1d(32, 32, 5, padding=2), nn.GELU())


class SeriesExplainer(nn.Module):
    """E: a signal and the model's answer to a weight for every window and class."""

    def __init__(self, layout, classes):
        super().__init__()
        self.length = layout[1]
        self.read, self.head = over_time(1 + classes), nn.Linear(32, classes)

    def forward(self, x, probs):
        answer = probs[:, :, None].expand(-1, -1, x.shape[1])  # (B, C, t)
        seen = self.read(torch.cat([x[:, None], answer], 1))  # (B, 32, t)
        return self.head(seen.unflatten(2, (-1, self.length)).mean(3).mT)  # (B, d, C)


class SeriesSelector(nn.Module):
    """S: a signal to the probability that each window is kept."""

    def __init__(self, layout):
        super().__init__()
        self.length = layout[1]
        self.read, self.head = over_time(1), nn.Linear(32, 1)

    def forward(self, x):
        seen = self.read(x[:, None]).unflatten(2, (-1, self.length)).mean(3)  # (B, 32, d)
        return self.head(seen.mT).squeeze(2).sigmoid()  # (B, d)


class SeriesApproximator(nn.Module):
    """G: the kept part of a signal to the scores of the classes."""

    def __init__(self, layout, classes):
        super().__init__()
        self.read, self.head = over_time(1), nn.Linear(32, classes)

    def forward(self, x, z):
        return self.head(self.read((x * z)[:, None]).amax(2))  # (B, C)
