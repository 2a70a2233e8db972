"""A model in an ONNX file, run by onnxruntime: tables, token ids, texts or images, as its input says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.blackbox.base import BlackBox, as_matrix, known_output, normalised, settled
from aimwise.errors import BadBlackBox, BadFile, extra

TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}
SEEN, KINDS = "attention_mask", "token_type_ids"
LABELS = ("label", "output_label")


class OnnxBox(BlackBox):
    """An ONNX classifier; what it takes and returns is read from the file.

    One input of two axes takes a table or token ids, one of three or four images, one of strings texts; several inputs of
    one column each take the columns of a DataFrame by name. `attention_mask` and `token_type_ids` are made from the ids.
    batch_size: how many inputs are run at once; a model of a fixed number is handed as many. pad: the id that is not looked at.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        output: str = "auto",
        class_names: Sequence[str] | None = None,
        batch_size: int = 1024,
        pad: int = 0,
        threads: int = 0,
    ) -> None:
        runtime = extra("onnxruntime", "onnx")
        if not Path(path).is_file():
            raise BadFile(f"There is no file {path}. Pass the path of an ONNX model.")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors come as exceptions
        try:
            self.session = runtime.InferenceSession(str(path), options, providers=runtime.get_available_providers())
        except Exception as e:  # onnxruntime raises classes of its own, one for each way a file can be wrong
            raise BadFile(f"{path} is not an ONNX model that onnxruntime can run ({first_line(e)}).") from e
        self.path, self.pad, self.output = Path(path), pad, known_output(output)
        self.inputs = list(self.session.get_inputs())
        self.wanted = chosen_output(self.session.get_outputs(), self.path)
        fixed = self.inputs[0].shape[0] if self.inputs[0].shape else None
        self.fixed: int | None = fixed if isinstance(fixed, int) else None
        self.rows_per_call = self.fixed or batch_size
        self.class_names = tuple(map(str, class_names)) if class_names is not None else None
        for one in self.inputs:
            if one.type not in TYPES:
                raise BadBlackBox(f"{path} takes {one.name!r} of type {one.type}, wanted one of {', '.join(TYPES)}.")

    @property
    def takes(self) -> str:
        """What it is asked about: "texts", "ids", "table", "columns" or "images"."""
        first, named = self.inputs[0], {one.name for one in self.inputs}
        if len(self.inputs) > 1:
            return "ids" if named & {SEEN, KINDS} else "columns"
        if first.type == "tensor(string)":
            return "texts"
        if len(first.shape) > 2:
            return "images"
        return "ids" if first.type in ("tensor(int64)", "tensor(int32)") else "table"

    @property
    def channels_last(self) -> bool:
        """Whether images have their channels last: told by where 1, 3 or 4 of them stand."""
        shape = self.inputs[0].shape
        return len(shape) == 4 and shape[1] not in (1, 3) and shape[3] in (1, 3, 4)

    @property
    def size(self) -> tuple[int, int] | None:
        """The height and width of the images that it takes, if it takes but one size."""
        shape = self.inputs[0].shape
        sides = shape[1:3] if self.channels_last or len(shape) == 3 else shape[2:4]
        return (sides[0], sides[1]) if len(sides) == 2 and all(isinstance(n, int) for n in sides) else None

    @property
    def floats(self) -> bool:
        """Whether its first input is of floats."""
        return "float" in self.inputs[0].type or "double" in self.inputs[0].type

    def _answer(self, inputs: Any) -> Any:
        given, n = self._given(inputs), len(inputs)
        step = self.rows_per_call
        rows = [self._run({k: v[i : i + step] for k, v in given.items()}) for i in range(0, n, step)]
        answer = as_matrix(np.concatenate(rows) if rows else np.zeros((0, self.n_classes or 2)), n)
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)

    def _given(self, inputs: Any) -> dict[str, np.ndarray]:
        """The arrays that the model is handed, by name."""
        if self.takes == "columns":
            if not hasattr(inputs, "columns"):
                raise BadBlackBox(f"{self.path} takes {len(self.inputs)} columns by name. Pass a DataFrame.")
            lacking = [one.name for one in self.inputs if one.name not in inputs.columns]
            if lacking:
                raise BadBlackBox(f"{self.path} takes the columns {', '.join(lacking)}, which the table has not.")
            return {one.name: shaped(np.asarray(inputs[one.name]), one) for one in self.inputs}
        values = inputs.cpu().numpy() if hasattr(inputs, "cpu") else np.asarray(inputs)
        made = {}
        for one in self.inputs:
            if one.name == SEEN:
                made[one.name] = (values != self.pad).astype(TYPES[one.type])
            elif one.name == KINDS:
                made[one.name] = np.zeros(values.shape, dtype=TYPES[one.type])
            else:
                made[one.name] = shaped(values, one)
        return made

    def _run(self, given: dict[str, np.ndarray]) -> np.ndarray:
        rows = len(next(iter(given.values())))
        if self.fixed is not None and rows < self.fixed:
            given = {k: np.concatenate([v, np.repeat(v[-1:], self.fixed - rows, 0)]) for k, v in given.items()}
        said = self.session.run([self.wanted], given)[0]
        if isinstance(said, list):  # a list of {class: probability}, as exporters of scikit-learn write it
            names = list(said[0])
            self.class_names = self.class_names or tuple(map(str, names))
            said = np.array([[row[name] for name in names] for row in said])
        return np.asarray(said)[:rows]


def chosen_output(outputs: Sequence[Any], path: Path) -> str:
    """The name of the output that holds a score for every class: the first that is not the label alone."""
    for one in outputs:
        scores = one.type.startswith("seq(map") or ("float" in one.type and len(one.shape) <= 2) or "double" in one.type
        if scores and one.name not in LABELS:
            return str(one.name)
    known = ", ".join(f"{one.name} of {one.type}" for one in outputs)
    raise BadBlackBox(f"{path} returns {known}; wanted an output of floats (n, C). Export the model with its probabilities.")


def shaped(values: np.ndarray, wanted: Any) -> np.ndarray:
    """An array in the type of an input, with the axis of one column where the input has it."""
    made = values.astype(TYPES[wanted.type])
    return made[:, None] if made.ndim == 1 and len(wanted.shape) == 2 else made


def first_line(error: Exception) -> str:
    """An error's first line, which is enough for people."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
