"""What goes in and out of the service, as its OpenAPI description has it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# No `from __future__ import annotations` here: FastAPI reads the annotations themselves.

Text = Annotated[str, Field(description="A text, as it is.")]
Row = Annotated[
    dict[str, Any] | list[Any],
    Field(description="A value for every column, by name or in order, null where it is missing; or a list of token ids."),
]
Picture = Annotated[
    str | list[Any], Field(description="A PNG or JPEG file in base64, or nested lists of numbers in the form used for fit.")
]


class Inputs(BaseModel):
    """The inputs of a request: texts, rows or images, as the explainer takes them."""

    model_config = ConfigDict(extra="forbid")

    explainer: str | None = Field(None, description="Which one; may be left out where the service has only one.")
    texts: list[Text] | None = Field(None, description="Texts, where the explainer takes texts.")
    rows: list[Row] | None = Field(None, description="Rows of a table, where the explainer takes them.")
    images: list[Picture] | None = Field(None, description="Images, where the explainer takes images.")


class ExplainRequest(Inputs):
    """Inputs to be explained."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["the match was a goal feast"], "classes": None, "top": 5}]}
    )

    classes: list[str | int] | None = Field(
        None, description="Names or numbers of the classes to tell the evidence for; null: all."
    )
    top: int = Field(10, ge=0, le=100_000, description="How many features to tell for each class.")
    by: Literal["weight", "size"] = Field("weight", description="The features that speak most for a class, or that say most.")
    view: bool = Field(False, description="Add what the page of this service draws an answer from; its form may change.")


class AskRequest(Inputs):
    """Inputs, and which features of each to keep and to take away."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["the match was a goal feast"], "keep": [[1, 4]]}]}
    )

    keep: list[list[Annotated[int, Field(ge=0, le=10_000_000)]]] = Field(
        description="For each input the numbers of features, `index` in the answer of /v1/explain."
    )
    view: bool = Field(False, description="Add what the page of this service draws an answer from; its form may change.")


class Feature(BaseModel):
    """One feature and what it says of a class."""

    index: int
    feature: str
    weight: float | None = Field(description="Evidence in log-odds; null where it is not a number.")
    value: Any = None
    start: int | None = Field(None, description="Where the word begins, in characters.")
    end: int | None = None


class Evidence(BaseModel):
    """The features that speak most for a class, the strongest first."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(alias="class")
    features: list[Feature]


class Problem(BaseModel):
    """What went wrong: a sentence for people, and a word for programs."""

    error: str
    kind: str


class Explained(BaseModel):
    """Why the model says what it says of one input."""

    prediction: str
    probabilities: list[float | None] = Field(description="In the order of `classes`.")
    evidence: list[Evidence]
    unexplained: int = Field(description="How many words at the end of the text were too many to be explained.")
    view: dict[str, Any] | None = None


class ExplainAnswer(BaseModel):
    """An answer for every input, in order; an error for those that could not be explained."""

    explainer: str
    method: str
    classes: list[str]
    results: list[Explained | Problem]


class Asked(BaseModel):
    """What the model says of one input with the kept features alone, and without them."""

    kept: list[float | None]
    rest: list[float | None]
    view: dict[str, Any] | None = None


class AskAnswer(BaseModel):
    """An answer for every input, in order."""

    explainer: str
    classes: list[str]
    results: list[Asked | Problem]


class About(BaseModel):
    """One explainer of the service."""

    name: str
    kind: Literal["text", "table", "image", "ids"]
    field: Literal["texts", "rows", "images"] = Field(description="Where a request has its inputs.")
    method: str
    classes: list[str]
    every_class: bool = Field(description="Whether it tells evidence for every class, or for the predicted one alone.")
    features: str
    fill: str = Field(description="What stands in for a feature that is taken away.")
    model: str
    input: dict[str, Any] = Field(description="What a form must know: columns with kinds, levels and examples; sizes; limits.")


class Limits(BaseModel):
    """What one request may hold."""

    items: int
    body: int
    seconds: float


class ExplainersAnswer(BaseModel):
    """All explainers of the service."""

    explainers: list[About]
    limits: Limits


class Health(BaseModel):
    """The service is up."""

    status: Literal["ok"]
