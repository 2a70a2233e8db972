"""Networks trained on data sets: how they are trained, asked, saved and loaded, the same for texts and images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from aimwise.blackbox import TorchBox
from aimwise.data.base import Dataset
from aimwise.device import repeatable, resolve_device, seeded
from aimwise.errors import BadFile, BadSetting
from aimwise.files import load_tensors, read_json, save_tensors, sha256, write_folder, write_json
from aimwise.training import Numbers, Plan, train

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
FORMAT, VERSION = "aimwise-network", 1
FACTS = ("data", "seed", "epochs", "stopped", "accuracy", "test_accuracy")
ROWS = 500  # asked about at once
HELD = 5000  # first rows of the dev part, by which epochs are judged
PATIENCE = 5
T = TypeVar("T", bound="Trained")


@dataclass(frozen=True)
class Recipe:
    """Which network a data set gets, and how it is trained."""

    network: str
    plan: Plan
    length: int = 0  # words that are read of a text


@dataclass(eq=False, kw_only=True)
class Trained(ABC):
    """A network trained on a data set: called with inputs it answers probabilities, and it knows how well it does."""

    kind: ClassVar[str]

    network: str
    module: nn.Module = field(repr=False)
    classes: tuple[str, ...]
    data: str = ""
    seed: int = 0
    epochs: int = 0  # that were trained
    stopped: str = "epochs"  # why training ended: epochs, patience or interrupted
    accuracy: float = 0.0  # on the first HELD rows of the dev part, by which the epoch was chosen
    test_accuracy: float = 0.0

    @abstractmethod
    def encode(self, inputs: Any) -> Shaped[Tensor, "B ..."]:
        """Inputs as the numbers that the network takes."""

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """What a file must hold, besides the weights, to build this one again."""

    @classmethod
    @abstractmethod
    def _build(cls: type[T], network: str, classes: tuple[str, ...], config: Mapping[str, Any]) -> T:
        """One with new weights, from what `_config` gave."""

    def __call__(self, inputs: Any) -> Float[Tensor, "B C"]:
        """The probability of every class for every input."""
        return answers(self.module, self.encode(inputs), len(self.classes))

    def save(self, path: str | Path) -> Path:
        """Write a folder with config.json and weights.safetensors, whole or not at all."""
        header = {"format": FORMAT, "version": VERSION, "kind": self.kind, "network": self.network}
        facts = {"classes": list(self.classes), **{fact: getattr(self, fact) for fact in FACTS}}

        def write(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, self.module.state_dict())
            write_json(folder / CONFIG, {**header, **facts, "sha256": sha256(folder / WEIGHTS), "config": self._config()})

        write_folder(Path(path), write, CONFIG)
        return Path(path)

    @classmethod
    def load(cls: type[T], path: str | Path) -> T:
        """The network that `save` wrote."""
        folder = Path(path)
        facts = read_json(folder / CONFIG)
        wanted = {"format": FORMAT, "version": VERSION, "kind": cls.kind}
        found = {name: facts.get(name) for name in wanted} if isinstance(facts, dict) else facts
        if found != wanted:
            raise BadFile(f"{folder / CONFIG} says {found}, wanted {wanted}. Pass a folder that {cls.__name__}.save wrote.")
        if not (folder / WEIGHTS).is_file() or sha256(folder / WEIGHTS) != facts.get("sha256"):
            raise BadFile(f"{folder / WEIGHTS} is missing or is not the file that {CONFIG} was written with. Train it again.")
        tensors, _ = load_tensors(folder / WEIGHTS)
        try:
            with torch.device("meta"):
                new = cls._build(facts["network"], tuple(facts["classes"]), facts["config"])
            new.module.load_state_dict(tensors, assign=True)
            new.module.eval()
            return replace(new, **{fact: facts[fact] for fact in FACTS})
        except (KeyError, TypeError, AttributeError, RuntimeError) as e:
            raise BadFile(f"{folder} is damaged ({type(e).__name__}: {e}). Train it again.") from e


def learn(new: Callable[[], T], data: Dataset, plan: Plan, *, seed: int, device: str, epochs: int | None) -> T:
    """Train what `new` makes; the epoch that does best on the dev part, or on the test part where there is none, is kept."""
    place = resolve_device(device)
    plan = plan if epochs is None else replace(plan, epochs=epochs)
    plan.check()
    if not -(2**63) <= seed < 2**63:
        raise BadSetting(f"seed={seed}, wanted a whole number of 64 bits.")
    with seeded(seed, place), repeatable(place):
        model = new()
        module = model.module.to(place)
        x, y = model.encode(data.train.inputs).to(place), torch.from_numpy(data.train.labels).to(place)
        held = data.dev or data.test
        dev, labels = model.encode(held.inputs[:HELD]), torch.from_numpy(held.labels[:HELD])

        def losses(order: Tensor) -> Iterator[Tensor]:
            for index in torch.split(order.to(place), plan.batch_size):
                yield cross_entropy(module(x[index]), y[index])

        def score(judged: nn.Module) -> Numbers:
            return {"agreement": share_right(answers(judged, dev, len(data.classes)), labels)}

        run = train(module, losses, score, torch.arange(len(x)), plan, torch.Generator().manual_seed(seed), called="accuracy")
    return replace(
        model,
        data=data.name,
        seed=seed,
        epochs=len(run.history),
        stopped=run.stopped,
        accuracy=run.history[run.best]["agreement"],
        test_accuracy=share_right(model(data.test.inputs), torch.from_numpy(data.test.labels)),
    )


def answers(module: nn.Module, x: Shaped[Tensor, "B ..."], classes: int) -> Float[Tensor, "B C"]:
    """What a network says about encoded inputs, some at a time, as probabilities."""
    box = TorchBox(module, output="logits")
    return torch.cat([torch.zeros(0, classes), *(box.probs(part).cpu() for part in torch.split(x, ROWS) if len(part))])


def share_right(probs: Float[Tensor, "B C"], labels: Shaped[Tensor, " B"]) -> float:
    """The share of rows whose most probable class is their label."""
    return float((probs.argmax(1) == labels).double().mean())
