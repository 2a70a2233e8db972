"""English stop words and WordNet, from the data folder or from an installation of NLTK."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from aimwise.data.store import VARIABLE, cache, find, locate
from aimwise.errors import MissingData

FOLDER = "lexicon"
FILES = {
    "stopwords_en.txt": "019f104ba2ed07436d05f9cdd3383034ad66014edc27fc651f837e1a038b6451",
    "wordnet30_exceptions.tsv.gz": "8994301ea4a25cb51b2de5236408238f74dc49d20d42f6b4c783f34000cc21b4",
    "wordnet30_relations.tsv.gz": "be3e7a6ff1a95c1918cd9f3c439c0f422da3e8595732672cb351782353276fd1",
    "wordnet30_words.tsv.gz": "8b22e5813f757c925d00fc2320e638c07cfe21654104f87f562848a67df0e23f",
}
NEAR = frozenset({"similar_to", "derivation", "pertainym", "also_see", "verb_group"})
ENDINGS = {  # what a base form may have lost, by part of speech
    "n": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"),
        ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip


@dataclass(frozen=True)
class StopWords:
    """Words that say little by themselves, and whose list it is."""

    words: frozenset[str]
    source: str

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)


@lru_cache(maxsize=1)
def stop_words() -> StopWords:
    """NLTK's English stop words from the data folder or from NLTK; scikit-learn's list where neither is here."""
    if locate(FOLDER, "stopwords_en.txt") is not None:
        lines = find(FOLDER, "stopwords_en.txt", FILES["stopwords_en.txt"]).read_text(encoding="utf-8").split("\n")
        return StopWords(frozenset(word for word in lines if word), "NLTK's list in the data folder")
    try:
        from nltk.corpus import stopwords

        return StopWords(frozenset(stopwords.words("english")), "NLTK")
    except (ImportError, LookupError):
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return StopWords(frozenset(ENGLISH_STOP_WORDS), "scikit-learn, since neither the data folder nor NLTK has a list")


@dataclass(frozen=True, eq=False)
class WordNet:
    """Words and their senses; two words are related where they share a sense or have senses next to each other."""

    senses: dict[tuple[str, str], tuple[str, ...]] = field(repr=False)
    near: dict[str, frozenset[str]] = field(repr=False)
    irregular: dict[tuple[str, str], tuple[str, ...]] = field(repr=False)

    def base_forms(self, word: str) -> list[tuple[str, str]]:
        """The entries that a word may be a form of, each with its part of speech."""
        word = word.lower().replace(" ", "_")
        found = []
        for part, endings in ENDINGS.items():
            forms = self.irregular.get((word, part)) or tuple(
                word[: -len(ending)] + base for ending, base in endings if word.endswith(ending)
            )
            found += [(form, part) for form in dict.fromkeys((word, *forms)) if (form, part) in self.senses]
        return found

    @lru_cache(maxsize=1 << 16)  # noqa: B019
    def related(self, word: str) -> frozenset[str]:
        """The senses of a word and those next to them; none if it is not in WordNet."""
        own = {sense for entry in self.base_forms(word) for sense in self.senses[entry]}
        return frozenset(own.union(*(self.near.get(sense, frozenset()) for sense in own)))


@lru_cache(maxsize=1)
def wordnet() -> WordNet:
    """WordNet 3.0 from the data folder, or NLTK's."""
    names = [name for name in FILES if name.startswith("wordnet30")]
    if all(locate(FOLDER, name) for name in names):
        return of_tables({name: find(FOLDER, name, FILES[name]) for name in names})
    try:
        return of_nltk()
    except (ImportError, LookupError) as e:
        raise MissingData(
            f"WordNet is not on this machine ({type(e).__name__}), and related words are not known without it. Install NLTK and "
            f"its data (pip install nltk; python -m nltk.downloader wordnet), or put {', '.join(names)} into {cache() / FOLDER} "
            f"or the folder {FOLDER} of the folder that {VARIABLE} names."
        ) from e


def of_tables(paths: dict[str, Path]) -> WordNet:
    """WordNet from its three tables."""
    senses = {
        (word, part): tuple(part + place for place in places.split())
        for word, part, places in rows_of(paths["wordnet30_words.tsv.gz"])
    }
    near: defaultdict[str, set[str]] = defaultdict(set)
    for sense, relation, other, *_ in rows_of(paths["wordnet30_relations.tsv.gz"]):
        if relation in NEAR:
            near[sense].add(other)
    irregular: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for form, part, base in rows_of(paths["wordnet30_exceptions.tsv.gz"]):
        irregular[form, part].append(base)
    return WordNet(
        senses, {s: frozenset(others) for s, others in near.items()}, {k: tuple(bases) for k, bases in irregular.items()}
    )


def of_nltk() -> WordNet:
    """The same from NLTK's reader, which must have its data."""
    from nltk.corpus import wordnet as corpus

    senses: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    near: dict[str, frozenset[str]] = {}
    for part in ENDINGS:
        for sense in corpus.all_synsets(part):
            beside = {*sense.similar_tos(), *sense.also_sees(), *sense.verb_groups()}
            for lemma in sense.lemmas():
                senses[lemma.name().lower(), part].append(sense.name())
                beside |= {other.synset() for other in (*lemma.derivationally_related_forms(), *lemma.pertainyms())}
            near[sense.name()] = frozenset(other.name() for other in beside)
    exceptions = {(form, part): tuple(bases) for part in ENDINGS for form, bases in corpus._exception_map[part].items()}
    return WordNet({k: tuple(v) for k, v in senses.items()}, near, exceptions)


def rows_of(path: Path) -> Iterator[list[str]]:
    """The cells of each line of a packed table."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n").split("\t")
