"""Every data set as its files: what they are called, how long they are, what they must hash to, and where they come from."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.data.store import VARIABLE, cache, checked, find, locate
from aimwise.errors import MissingData, extra, unknown


@dataclass(frozen=True)
class Source:
    """A file as its publisher serves it."""

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class File:
    """A Parquet or npz file that a loader reads, and the publisher's files from which `build` makes the same content."""

    name: str
    size: int
    sha256: str
    sources: tuple[Source, ...] = ()
    build: Callable[[Sequence[Path]], Any] | None = None


@dataclass(frozen=True)
class Entry:
    """A data set's folder, a line on what it is, who publishes it, and its files; none if no file is needed."""

    folder: str
    about: str
    home: str
    files: tuple[File, ...] = ()

    def file(self, name: str) -> File:
        """The file of that name."""
        for file in self.files:
            if file.name == name:
                return file
        raise unknown(f"file of {self.folder}", name, [f.name for f in self.files])


def entry(name: str) -> Entry:
    """The catalogue's entry of a data set."""
    if name not in CATALOG:
        raise unknown("data set", name, CATALOG)
    return CATALOG[name]


def here(folder: str, file: File) -> list[tuple[Path, str]]:
    """The paths that give this file, each with the sha256 it should have: itself, else all sources, else none."""
    copy = locate(folder, file.name)
    if copy is not None:
        return [(copy, file.sha256)]
    found = [(locate(folder, source.name), source.sha256) for source in file.sources]
    return [(path, digest) for path, digest in found if path is not None] if all(path for path, _ in found) else []


def read(name: str, file: str) -> Any:
    """A data set's file, or what the publisher's own files give in its place, checksums verified.

    A Parquet file is a DataFrame, an npz file its arrays by name.
    """
    made = entry(name)
    wanted = made.file(file)
    arrays = wanted.name.endswith(".npz")
    for package in () if arrays else ("pandas", "pyarrow"):
        extra(package, "table")
    paths = [checked(path, digest) for path, digest in here(made.folder, wanted)]
    if wanted.build is not None and paths and paths[0].name != wanted.name:
        return wanted.build(paths)
    hint = f" `aimwise data get {name}` {'downloads it' if wanted.sources else 'says where it is published'}."
    path = find(made.folder, file, wanted.sha256, hint=hint)
    if not arrays:
        return extra("pandas", "table").read_parquet(path, engine="pyarrow")
    with np.load(path) as kept:
        return dict(kept)


def by_hand(name: str) -> MissingData:
    """The error for a data set that cannot be downloaded: who publishes it, and which files to put where."""
    made = entry(name)
    wanted = "; ".join(f"{f.name} ({f.size:,} bytes, sha256 {f.sha256})" for f in made.files)
    return MissingData(
        f"{name!r} is not here and cannot be downloaded: its publisher serves no file with a checksum known to aimwise. It is "
        f"published at {made.home}; aimwise reads Parquet copies of it. Put them in {cache() / made.folder}, or in the folder "
        f"{made.folder} of the folder that {VARIABLE} names: {wanted}."
    )


def adult_of_uci(paths: Sequence[Path]) -> Any:
    """The table of adult.parquet from UCI's adult.data and adult.test."""
    pd = extra("pandas", "table")
    names = [
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
        "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
    ]  # fmt: skip
    parts = []
    for path, split in zip(paths, ("train", "test"), strict=True):
        first = 0 if split == "train" else 1  # adult.test opens with a line that is no row
        part = pd.read_csv(path, names=names, skiprows=first, skipinitialspace=True, keep_default_na=False)
        parts.append(part.assign(income=part["income"].str.rstrip("."), split=split))
    table = pd.concat(parts, ignore_index=True)
    return table.astype({name: "int32" for name in names if pd.api.types.is_integer_dtype(table[name].dtype)})


def arrays_of_idx(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """The arrays of mnist.npz or fashion_mnist.npz from the publisher's images and labels for train, then for test."""
    images, labels, more_images, more_labels = map(idx, paths)
    return {
        "images": np.concatenate([images, more_images]),
        "labels": np.concatenate([labels, more_labels]),
        "split": np.repeat(np.array([0, 1], dtype=np.uint8), [len(labels), len(more_labels)]),
    }


def idx(path: Path) -> np.ndarray:
    """A packed IDX file of bytes: two zeros, a type, the number of axes, the length of each, then the values."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(np.frombuffer(content, ">u4", axes, 4))


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
ADULT = File(
    "adult.parquet",
    395_104,
    "28aa35b812a76e6c26700a83bd0582dd629c3e437280124c818ebaa5b596bd13",
    (  # the sha256 of the bytes whose MD5 are the known 5d7c39d7b8804f071cdd1f2a7c460872 and 35238206dfdf7f1fe215bbb874adecdc
        Source(f"{UCI}/adult.data", 3_974_305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
        Source(f"{UCI}/adult.test", 2_003_153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
    ),
    adult_of_uci,
)
ADMISSION = (
    File("admission_predict_v1_1.parquet", 7_394, "a02a4339bad8aedf0cd311f9c5239853354958eb9890312f45c8f67fd97394f7"),
    File("admission_predict.parquet", 6_660, "b9fb7346478534f0241e73602957f3993af9f9ee588633b57203e2cfdf5cc710"),
)
CALIFORNIA_HOUSING = File(
    "california_housing.parquet", 327_915, "0e41226fec76b8f3e8b23fb3269e9f30bf8239472bfd090d16fa03dacba4406d"
)
IMDB = (
    File("train.parquet", 9_687_937, "51ce801063671b50c5a2e3b828eb663db231c62e824fce0b57e8f2b548cc9503"),
    File("test.parquet", 9_441_496, "d36389dd343f1dea07536298a6bee966a76789bf1b620de84df371669acc69f2"),
)
AG_NEWS = (
    File("train_partial.parquet", 4_935_442, "b20c1b686bb54a8646f85dd2eddac3ca59e76370e4aff4ee77fd2d224b750de2"),
    File("test.parquet", 586_571, "ce36eb5101549e9e2f1cf49ba396d43cadfae6ea766cad58dcce7faab49bb7a0"),
)
HATEXPLAIN = (
    File("train.parquet", 1_621_126, "bc5cb43bda06d1100985dca6d4fda686cb71fc4c3b96b2302dfd424fa10474e8"),
    File("val.parquet", 229_828, "cb4890175ca01cc457ee83989bea107675fe846c088fa55818556fb8cde9ea07"),
    File("test.parquet", 229_826, "ab65cfcdf3467f7d136e1d32d684fc09531d8a490df8a877924258df8060e901"),
)
SST2 = (
    File("train.parquet", 244_075, "9534c3f8a5e6c6b1f9016e15270efd4f02da944834c9529cc0ffbb6970bca7e9"),
    File("validation.parquet", 37_887, "b7ad3bdf4920e52839c034dc6a1c16f7f568425e9bbb8938ccc9214e2acdeb72"),
    File("test.parquet", 72_796, "c427709bdafde9ff9d7549d9504d3817ed5ce7b9c1ca4fd89d2557cc2f5e6735"),
    File("train_phrases.parquet", 933_932, "ec1326932fddada6de427b6349fec47e2e77f38b143d5b61d029994ffd023d67"),
)
CVDF = "https://storage.googleapis.com/cvdf-datasets/mnist"  # a mirror of LeCun's own files
MNIST = File(
    "mnist.npz",
    11_266_214,
    "a3d33826eba19861687865e9019a8409fd242be23c015df2b3751ea6b60ed707",
    (
        Source(
            f"{CVDF}/train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
        ),
        Source(f"{CVDF}/train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        Source(
            f"{CVDF}/t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
        ),
        Source(f"{CVDF}/t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    arrays_of_idx,
)
ZALANDO = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
FASHION_MNIST = File(
    "fashion_mnist.npz",
    30_610_717,
    "3c82baa4cbf573b90d971266da6d104d36cd80bfa11b528684df3b7c9b10fd99",
    (
        Source(
            f"{ZALANDO}/train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        Source(
            f"{ZALANDO}/train-labels-idx1-ubyte.gz", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
        ),
        Source(
            f"{ZALANDO}/t10k-images-idx3-ubyte.gz", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
        ),
        Source(f"{ZALANDO}/t10k-labels-idx1-ubyte.gz", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
    arrays_of_idx,
)

LECUN = "http://yann.lecun.com/exdb/mnist/"
FASHION = "https://github.com/zalandoresearch/fashion-mnist"
HATE = "https://github.com/hate-alert/HateXplain"
CATALOG: dict[str, Entry] = {
    "adult": Entry("adult", "census income above 50,000 dollars; 48,842 rows, 12 columns", UCI, (ADULT,)),
    "admission": Entry(
        "admission", "chance of graduate admission; 500 rows, 7 columns", "Kaggle as 'Graduate Admission 2'", ADMISSION
    ),
    "california_housing": Entry(
        "california_housing",
        "median house value of a block group; 20,640 rows, 9 columns",
        "https://github.com/ageron/handson-ml2 (datasets/housing)",
        (CALIFORNIA_HOUSING,),
    ),
    "breast_cancer": Entry("breast_cancer", "malignant or benign; 569 rows, 30 columns", "scikit-learn"),
    "wine": Entry("wine", "three cultivars; 178 rows, 13 columns", "scikit-learn"),
    "planted": Entry("planted", "generated, the deciding columns known; 4,000 rows, 11 columns", "aimwise"),
    "imdb": Entry("imdb", "50,000 movie reviews, negative or positive", "https://ai.stanford.edu/~amaas/data/sentiment/", IMDB),
    "ag_news": Entry(
        "ag_news",
        "news articles of four topics; 68,124 of the 120,000 train articles, all 7,600 test articles",
        "https://github.com/mhjabreel/CharCnn_Keras (data/ag_news_csv)",
        AG_NEWS,
    ),
    "hatexplain": Entry("hatexplain", "19,229 posts, normal or hateful or offensive; offensive language", HATE, HATEXPLAIN),
    "hatexplain3": Entry("hatexplain", "the same posts as hatexplain in three classes", HATE, HATEXPLAIN),
    "sst2": Entry("sst2", "9,613 sentences of movie reviews, negative or positive", "https://nlp.stanford.edu/sentiment/", SST2),
    "mnist": Entry("mnist", "70,000 handwritten digits, 28x28", LECUN, (MNIST,)),
    "mnist3": Entry("mnist", "the digits 0, 1 and 2 of mnist", LECUN, (MNIST,)),
    "fashion_mnist": Entry("fashion_mnist", "70,000 pictures of ten kinds of clothes, 28x28", FASHION, (FASHION_MNIST,)),
    "fashion3": Entry("fashion_mnist", "the T-shirts, trousers and pullovers of fashion_mnist", FASHION, (FASHION_MNIST,)),
    "digits": Entry("digits", "1,797 handwritten digits, 8x8", "scikit-learn"),
}
