"""Downloads come whole or not at all, go on where they were cut off, and say what went wrong; the server is a local one."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aimwise.cli import main
from aimwise.data import DATASETS, catalog, download, store, tables
from aimwise.data.catalog import CATALOG, Entry, File, Source
from aimwise.errors import MissingData, UnknownName
from test_data import needs

CONTENT = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(20_000))
DIGEST = hashlib.sha256(CONTENT).hexdigest()
HALF = len(CONTENT) // 2
GIVEN = os.environ.get("AIMWISE_DATA", "")


class Server(ThreadingHTTPServer):
    """Serves files by name; `cut` closes after so many bytes of an answer, `ranges` says whether it resumes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"toys.csv": CONTENT}
        self.cut: int | None = None
        self.ranges = True
        self.lengths = True
        self.status: int | None = None
        self.span: str | None = None
        self.asked: list[str | None] = []

    def source(self, name: str = "toys.csv", content: bytes = CONTENT) -> Source:
        return Source(f"http://127.0.0.1:{self.server_port}/files/{name}", len(content), hashlib.sha256(content).hexdigest())


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.asked.append(asked)
        content = server.files.get(self.path.rsplit("/", 1)[-1])
        if server.status == 416 and asked:
            self.send_error(416)
            return
        if content is None or server.status not in (None, 416):
            self.send_error(server.status or 404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.ranges else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", server.span or f"bytes {start}-{len(content) - 1}/{len(content)}")
        if server.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: server.cut])

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no AIMWISE_DATA, and no proxy between the tests and their server."""
    for name in ("AIMWISE_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("COLUMNS", "200")
    return store.cache()


@pytest.fixture
def place(cache: Path) -> Path:
    return cache / "toys" / "toys.csv"


@pytest.fixture
def toys(server: Server, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A data set in the catalogue whose one source the local server holds."""
    file = File("toys.parquet", 10, "0" * 64, (server.source(),), lambda paths: pd.read_csv(paths[0]))
    made = Entry("toys", "numbers and their squares", "nowhere", (file,))
    monkeypatch.setitem(CATALOG, "toys", made)
    return made


def left(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


# --- one file


@pytest.mark.parametrize("lengths", [True, False])
def test_a_whole_file_arrives(server: Server, place: Path, lengths: bool) -> None:
    server.lengths = lengths
    download.fetch(server.source(), place)
    assert place.read_bytes() == CONTENT
    assert left(place.parent) == ["toys.csv"]
    assert server.asked == [None]


def test_an_empty_part_and_a_longer_one_start_anew(server: Server, place: Path) -> None:
    part = place.with_name("toys.csv.part")
    for content in (b"", CONTENT + b"more"):
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        download.fetch(server.source(), place)
        assert place.read_bytes() == CONTENT
    assert server.asked == [None, None]


@pytest.mark.parametrize("lengths", [True, False])
def test_a_cut_off_file_is_kept_and_gone_on_with(server: Server, place: Path, lengths: bool) -> None:
    server.cut, server.lengths = HALF, lengths
    with pytest.raises(
        MissingData, match=f"cut off after {HALF:,} of {len(CONTENT):,} bytes.*is kept at.*Run it again"
    ) as caught:
        download.fetch(server.source(), place)
    assert str(place) + ".part" in str(caught.value)
    assert left(place.parent) == ["toys.csv.part"]
    assert place.with_name("toys.csv.part").read_bytes() == CONTENT[:HALF]
    server.cut = None
    download.fetch(server.source(), place)
    assert server.asked == [None, f"bytes={HALF}-"]
    assert place.read_bytes() == CONTENT
    assert left(place.parent) == ["toys.csv"]


def test_a_file_cut_off_twice_arrives(server: Server, place: Path) -> None:
    server.cut = len(CONTENT) // 3
    for _ in range(3):
        with pytest.raises(MissingData, match="cut off"):
            download.fetch(server.source(), place)
    download.fetch(server.source(), place)
    assert len(server.asked) == 4
    assert place.read_bytes() == CONTENT


def test_a_part_that_is_whole_is_not_asked_for_again(server: Server, place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.with_name("toys.csv.part").write_bytes(CONTENT)
    download.fetch(server.source(), place)
    assert server.asked == []
    assert place.read_bytes() == CONTENT


@pytest.mark.parametrize("how", ["ignores", "refuses", "answers another range"])
def test_a_server_that_does_not_resume_is_asked_for_the_whole(server: Server, place: Path, how: str) -> None:
    server.ranges, server.status = how != "ignores", 416 if how == "refuses" else None
    server.span = f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}" if how == "answers another range" else None
    place.parent.mkdir(parents=True)
    place.with_name("toys.csv.part").write_bytes(b"x" * HALF)  # were it kept, the checksum would fail
    download.fetch(server.source(), place)
    assert server.asked == ([f"bytes={HALF}-"] if how == "ignores" else [f"bytes={HALF}-", None])
    assert place.read_bytes() == CONTENT


def test_wrong_bytes_are_removed_and_said(server: Server, place: Path) -> None:
    server.files["toys.csv"] = wrong = CONTENT[:-2] + b"?\n"
    with pytest.raises(MissingData, match=f"sha256 {hashlib.sha256(wrong).hexdigest()}, wanted {DIGEST}; they were removed"):
        download.fetch(server.source(), place)
    assert left(place.parent) == []


def test_a_wrong_part_does_not_stand_in_the_way_for_ever(server: Server, place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.with_name("toys.csv.part").write_bytes(b"x" * HALF)
    with pytest.raises(MissingData, match="they were removed"):
        download.fetch(server.source(), place)
    download.fetch(server.source(), place)
    assert place.read_bytes() == CONTENT


def test_another_length_is_refused_before_it_is_read(server: Server, place: Path) -> None:
    server.files["toys.csv"] = CONTENT + b"1,1\n"
    with pytest.raises(MissingData, match=f"offers {len(CONTENT) + 4} bytes, wanted {len(CONTENT)}"):
        download.fetch(server.source(), place)
    assert left(place.parent) == []


@pytest.mark.parametrize(("status", "said"), [(404, "answered 404 Not Found"), (503, "answered 503 Service Unavailable")])
def test_a_refusal_is_named(server: Server, place: Path, status: int, said: str) -> None:
    server.status = status
    place.parent.mkdir(parents=True)
    place.with_name("toys.csv.part").write_bytes(CONTENT[:HALF])
    with pytest.raises(MissingData, match=f"{server.source().url} {said}"):
        download.fetch(server.source(), place)
    assert left(place.parent) == ["toys.csv.part"]


def test_a_server_that_is_not_there_is_named(place: Path) -> None:
    with Server() as gone:
        source = gone.source()
    with pytest.raises(MissingData, match=r"cannot be reached \(.*refused.*Check the network"):
        download.fetch(source, place)
    assert left(place.parent) == []


def test_a_stop_in_the_middle_leaves_the_part(server: Server, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stops:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def __enter__(self) -> Stops:
            return self

        def __exit__(self, *_: object) -> None: ...
        def update(self, n: int) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, "bar", Stops)
        with pytest.raises(KeyboardInterrupt):
            download.fetch(server.source(), place)
    assert left(place.parent) == ["toys.csv.part"]
    download.fetch(server.source(), place)
    assert server.asked == [None, f"bytes={download.BLOCK}-"]
    assert place.read_bytes() == CONTENT


# --- a data set


def test_get_brings_what_the_loader_reads(server: Server, toys: Entry, place: Path) -> None:
    with pytest.raises(MissingData, match="`aimwise data get toys` downloads it"):
        catalog.read("toys", "toys.parquet")
    assert download.get("toys") == [place]
    table = catalog.read("toys", "toys.parquet")
    assert table.shape == (20_000, 2)
    assert download.get("toys") == []
    assert len(server.asked) == 1


def test_a_damaged_download_is_refused_by_the_loader_and_replaced_by_get(server: Server, toys: Entry, place: Path) -> None:
    download.get("toys")
    place.write_bytes(CONTENT[:HALF])
    with pytest.raises(MissingData, match=f"wanted {DIGEST}"):
        catalog.read("toys", "toys.parquet")
    server.cut = HALF
    with pytest.raises(MissingData, match="cut off"):
        download.get("toys")
    server.cut = None
    assert download.get("toys") == [place]
    assert place.read_bytes() == CONTENT


def test_a_file_in_the_given_folder_is_not_downloaded(
    server: Server, toys: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own" / "toys" / "toys.csv"
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT)
    monkeypatch.setenv("AIMWISE_DATA", str(tmp_path / "own"))
    assert download.get("toys") == []
    own.write_bytes(b"mine")
    with pytest.raises(MissingData, match="It is damaged or another version"):
        download.get("toys")
    assert own.read_bytes() == b"mine"
    assert server.asked == []


def test_a_cache_that_cannot_be_written_is_named(server: Server, toys: Entry, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where a folder is wanted")
    with pytest.raises(MissingData, match=r"toys\.csv cannot be written"):
        download.get("toys")


def test_adult_of_its_publisher_is_adult_of_the_parquet_file(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = given_folder(monkeypatch)
    usual = tables.adult()
    raw = pd.read_parquet(given / "adult" / "adult.parquet")

    def written(split: str, end: str) -> str:
        rows = raw[raw["split"] == split].drop(columns="split").itertuples(index=False)
        return "".join(", ".join(map(str, row)) + end + "\n" for row in rows) + "\n"

    server.files["adult.data"] = written("train", "").encode()
    server.files["adult.test"] = ("|1x3 Cross validator\n" + written("test", ".")).encode()
    published = {"adult.data": "5d7c39d7b8804f071cdd1f2a7c460872", "adult.test": "35238206dfdf7f1fe215bbb874adecdc"}
    assert {name: hashlib.md5(server.files[name]).hexdigest() for name in published} == published
    monkeypatch.delenv("AIMWISE_DATA")
    local = tuple(replace(s, url=server.source(s.name).url) for s in catalog.ADULT.sources)
    monkeypatch.setitem(CATALOG, "adult", replace(CATALOG["adult"], files=(replace(catalog.ADULT, sources=local),)))
    assert download.get("adult") == [cache / "adult" / "adult.data", cache / "adult" / "adult.test"]
    pd.testing.assert_frame_equal(catalog.read("adult", "adult.parquet"), raw)
    built = tables.adult()
    for a, b in ((built.train, usual.train), (built.test, usual.test)):
        pd.testing.assert_frame_equal(a.inputs, b.inputs)
        np.testing.assert_array_equal(a.labels, b.labels)
    (cache / "adult" / "adult.test").unlink()
    with pytest.raises(MissingData, match="aimwise data get adult"):
        tables.adult()


def given_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The AIMWISE_DATA that the tests were started with, put back for this test."""
    if GIVEN:
        monkeypatch.setenv("AIMWISE_DATA", GIVEN)
    needs("adult")
    return Path(GIVEN)


# --- the catalogue


def test_the_catalogue_holds_every_data_set_and_its_facts() -> None:
    assert list(CATALOG) == list(DATASETS)
    for made in CATALOG.values():
        for file in made.files:
            assert (file.build is None) == (not file.sources)
            for one in (file, *file.sources):
                assert one.size > 0
                assert len(bytes.fromhex(one.sha256)) == 32
            assert all(source.url.startswith("https://") for source in file.sources)


def test_the_catalogues_sizes_are_those_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    given_folder(monkeypatch)
    for made in CATALOG.values():
        for file in made.files:
            path = store.locate(made.folder, file.name)
            assert path is None or path.stat().st_size == file.size


def test_an_unknown_file_is_named() -> None:
    with pytest.raises(UnknownName, match=r"no file of imdb 'tran.parquet'.*Did you mean 'train.parquet'"):
        catalog.read("imdb", "tran.parquet")


# --- the command


def test_the_command_gets_once(server: Server, toys: Entry, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "toys"]) == 0
    assert capsys.readouterr().out == f"downloaded and checked: {place}\n"
    assert main(["data", "get", "toys"]) == 0
    assert capsys.readouterr().out == f"toys is already here: {place}\n"
    assert len(server.asked) == 1


def test_the_command_goes_on_after_a_cut(server: Server, toys: Entry, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.cut = HALF
    assert main(["data", "get", "toys"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("aimwise: The download of http://127.0.0.1")
    assert said.err.count("\n") == 1
    assert said.out == ""
    server.cut = None
    assert main(["data", "get", "toys"]) == 0
    assert place.read_bytes() == CONTENT


@pytest.mark.parametrize("name", [name for name, made in CATALOG.items() if made.files and not made.files[0].sources])
def test_what_cannot_be_downloaded_says_where_it_is_and_where_to_put_it(
    name: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "get", name]) == 1
    said, made = capsys.readouterr().err, CATALOG[name]
    for part in (made.home, str(cache / made.folder), "AIMWISE_DATA", *(f.sha256 for f in made.files)):
        assert part in said


def test_what_needs_no_file_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "wine"]) == 0
    assert capsys.readouterr().out == "wine needs no file: it comes with scikit-learn.\n"


@pytest.mark.parametrize("command", ["get", "check"])
def test_an_unknown_data_set_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", command, "imbd"]) == 1
    assert "There is no data set 'imbd'" in capsys.readouterr().err


def test_the_list_says_what_is_where(
    server: Server, toys: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def states() -> dict[str, str]:
        assert main(["data", "list"]) == 0
        out = capsys.readouterr().out
        assert "numbers and their squares" in out
        return {line.split()[0]: " ".join(line.split()[1:4]) for line in out.splitlines() if line.strip()}

    first = states()
    assert {*CATALOG} <= {*first}
    assert first["toys"].startswith("absent 0.")
    assert first["adult"] == "absent 5.98 MB"
    assert first["wine"].startswith("embedded -")
    main(["data", "get", "toys"])
    capsys.readouterr()
    assert states()["toys"].startswith("cache 0.")
    for path in ("toys/toys.csv", "imdb/train.parquet"):
        (tmp_path / "own" / path).parent.mkdir(parents=True)
        (tmp_path / "own" / path).write_bytes(CONTENT)
    monkeypatch.setenv("AIMWISE_DATA", str(tmp_path / "own"))
    last = states()
    assert last["toys"].startswith("env 0.")
    assert last["imdb"] == "1 of 2"


def test_check_exits_with_1_on_a_wrong_file(server: Server, toys: Entry, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check"]) == 0
    assert "absent   toys\n" in capsys.readouterr().out
    assert main(["data", "check", "toys"]) == 1
    assert "aimwise data get toys" in capsys.readouterr().err
    main(["data", "get", "toys"])
    capsys.readouterr()
    assert main(["data", "check", "toys"]) == 0
    assert capsys.readouterr().out == f"ok       {place}\n"
    place.write_bytes(CONTENT[1:])
    for words in (["toys"], []):
        assert main(["data", "check", *words]) == 1
        assert f"bad      {place} has sha256" in capsys.readouterr().out
    assert main(["data", "check", "wine"]) == 0


def test_help_teaches_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["data", "--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    for line in ("aimwise data list ", "aimwise data get adult ", "aimwise data check ", "AIMWISE_DATA"):
        assert line in out
    with pytest.raises(SystemExit) as stopped:
        main(["data"])
    assert stopped.value.code == 2
