"""Models by name: modules of one's own, folders of transformers, ONNX files and services; what would run code is refused."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from aimwise import AIM, HttpBox, OnnxBox, SklearnBox
from aimwise.blackbox.http import as_json
from aimwise.blackbox.named import Asking, by_name
from aimwise.errors import BadBlackBox, BadFile, BadSetting, NoAnswer, UnknownName
from command_line import filled, inside

TEXTS = ["the goal of the team", "a vote on the law", "a phone with a chip"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with inside(filled(tmp_path_factory.mktemp("user"))) as folder:
        yield folder


@pytest.mark.parametrize("name", ["mypkg.models:clf", "mypkg.models:Inner.clf", "mypkg.models:make()", "mypkg.models:News()"])
def test_objects_of_modules(name, here):
    box = by_name(name)
    assert isinstance(box, SklearnBox)
    assert box.probs(TEXTS).argmax(1).tolist() == [0, 1, 2]
    assert by_name(name, asking=Asking(class_names=("a", "b", "c"), batch_size=2)).rows_per_call == 2


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("mypkg.models:News", BadBlackBox, r"is a class, wanted a model made from it. Write mypkg.models:News\(\)"),
        ("mypkg.models:make", BadBlackBox, r"a function without arguments.*Write mypkg.models:make\(\)"),
        ("mypkg.models:clff", UnknownName, "Did you mean 'clf'"),
        ("mypkg.modles:clf", UnknownName, "no module 'mypkg.modles'"),
        ("mypkg/models.py:clf", BadSetting, "Write mypkg.models:clf"),
        ("mypkg.models", BadSetting, "wanted package.module:object, hf:FOLDER, onnx:FILE, http"),
        ("model.joblib", BadBlackBox, "opening it would run whatever code is inside.*onnx:FILE, hf:FOLDER"),
        ("onnx:weights.pt", BadBlackBox, "opening it would run"),
        ("onnx:absent.onnx", BadFile, "no file absent.onnx"),
        ("hf:mypkg", BadFile, "has no config.json"),
        ("mypkg.needs:clf", BadBlackBox, "needs 'no_such_package', which is not installed"),
        ("mypkg.raises:clf", BadBlackBox, "raised ZeroDivisionError when it was imported"),
        ("mypkg:models", BadBlackBox, "is a module"),
    ],
)
def test_what_is_no_model_is_said(name, error, said, here):
    (here / "mypkg" / "needs.py").write_text("import no_such_package")
    (here / "mypkg" / "raises.py").write_text("1 / 0")
    with pytest.raises(error, match=said):
        by_name(name)


class Service(BaseHTTPRequestHandler):
    """Answers as `mypkg.models` does, after as many failures as are wanted."""

    failures: ClassVar[list[int]] = []
    asked: ClassVar[list[tuple[int, str | None]]] = []
    slow = 0.0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((len(body["inputs"]), self.headers.get("Authorization")))
        time.sleep(self.slow)
        code = self.failures.pop(0) if self.failures else 200
        scores = [[("goal" in t) + 0.1, ("vote" in t) + 0.1] for t in body["inputs"]]
        said = {"probs": [[v / sum(row) for v in row] for row in scores], "classes": ["sports", "politics"]}
        data = json.dumps(said if code == 200 else {"error": "later"}).encode()
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "http://elsewhere.example/")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr("aimwise.blackbox.http.FIRST_WAIT", 0.01)
    Service.failures, Service.asked, Service.slow = [], [], 0.0
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/score"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_service_is_asked_in_batches_with_a_header_from_the_environment(service, monkeypatch):
    monkeypatch.setenv("SECRET_OF_TEST", "Bearer s3cret")
    asking = Asking(batch_size=2, headers={"Authorization": "env:SECRET_OF_TEST"})
    box = by_name(service, asking=asking)
    probs = box.probs(["a goal", "a vote", "a goal"])
    assert probs.argmax(1).tolist() == [0, 1, 0]
    assert box.class_names == ("sports", "politics")
    assert Service.asked == [(2, "Bearer s3cret"), (1, "Bearer s3cret")]
    with pytest.raises(BadSetting, match="wanted Authorization=env:VARIABLE"):
        by_name(service, asking=Asking(headers={"Authorization": "Bearer s3cret"}))
    with pytest.raises(BadSetting, match=r"\$NOT_SET_OF_TEST, which is not set"):
        by_name(service, asking=Asking(headers={"Authorization": "env:NOT_SET_OF_TEST"}))


def test_a_service_is_asked_again_after_what_passes_and_not_after_what_does_not(service):
    Service.failures = [503, 500, 429]
    assert HttpBox(service, retries=3).probs(["a goal"]).shape == (1, 2)
    assert len(Service.asked) == 4
    Service.failures = [503, 503]
    with pytest.raises(NoAnswer, match="answered 503"):
        HttpBox(service, retries=1).probs(["a goal"])
    for code, error in ((400, BadBlackBox), (401, NoAnswer), (302, NoAnswer)):
        Service.failures, Service.asked = [code], []
        with pytest.raises(error, match=f"answered {code}|elsewhere.example/, which is not followed"):
            HttpBox(service, retries=3).probs(["a goal"])
        assert len(Service.asked) == 1
    Service.slow = 1.0
    with pytest.raises(NoAnswer, match=r"cannot be reached .*2 tries of 0.1 s"):
        HttpBox(service, retries=1, timeout=0.1).probs(["a goal"])


def test_no_service_and_odd_addresses():
    with pytest.raises(NoAnswer, match="cannot be reached"):
        HttpBox("http://127.0.0.1:9/", retries=0).probs(["x"])
    with pytest.raises(BadSetting, match="name or password"):
        HttpBox("http://me:word@host/")
    with pytest.raises(BadSetting, match="wanted http://host"):
        HttpBox("ftp://host/")


def test_inputs_go_out_as_json_has_them():
    frame = pd.DataFrame({"n": [1, 2], "x": [0.5, np.nan], "day": pd.to_datetime(["2020-01-01", None]), "s": ["a", None]})
    assert as_json(frame) == [
        {"n": 1, "x": 0.5, "day": "2020-01-01 00:00:00", "s": "a"},
        {"n": 2, "x": None, "day": None, "s": None},
    ]
    assert as_json(np.array([[1.0, np.inf]])) == [[1.0, None]]
    assert as_json(["a"]) == ["a"]


def onnx_model(path, nodes, inputs, outputs, weights=()):
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    ids = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=ids, ir_version=8), path)
    return path


def linear_onnx(path, rows="n", zipped=False):
    """softmax(x @ W) of three columns and two classes."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    weights = onnx.numpy_helper.from_array(np.array([[1, -1], [0, 0], [-2, 2]], dtype=np.float32), "W")
    nodes = [helper.make_node("MatMul", ["x", "W"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=1)]
    outputs = [helper.make_tensor_value_info("p", kind.FLOAT, [rows, 2])]
    if zipped:
        nodes.append(helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"]))
        value = helper.make_tensor_type_proto(kind.FLOAT, None)
        outputs = [helper.make_value_info("z", helper.make_sequence_type_proto(helper.make_map_type_proto(kind.STRING, value)))]
    return onnx_model(path, nodes, [helper.make_tensor_value_info("x", kind.FLOAT, [rows, 3])], outputs, [weights])


@pytest.mark.parametrize("rows", ["n", 4])
def test_onnx_tables_of_any_or_one_number_of_rows(rows, tmp_path):
    x = np.random.default_rng(0).normal(size=(11, 3))
    scores = x @ np.array([[1, -1], [0, 0], [-2, 2]])
    wanted = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    box = by_name(f"onnx:{linear_onnx(tmp_path / 'm.onnx', rows)}", asking=Asking(batch_size=5))
    assert isinstance(box, OnnxBox)
    assert (box.takes, box.rows_per_call) == ("table", 4 if rows == 4 else 5)
    np.testing.assert_allclose(box.probs(x).numpy(), wanted, atol=1e-6)
    assert AIM(epochs=1).fit(box, x, max_queries=2000).explain(x).weights.shape == (11, 3, 2)


def test_onnx_classes_by_name_and_files_that_are_none(tmp_path):
    box = OnnxBox(linear_onnx(tmp_path / "z.onnx", zipped=True))
    assert box.probs(np.zeros((2, 3))).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert box.class_names == ("no", "yes")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(BadFile, match="is not an ONNX model"):
        OnnxBox(tmp_path / "bad.onnx")


def test_onnx_tells_what_it_takes(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto

    def made(name, shape, dtype):
        nodes = [
            helper.make_node("Cast", [name], ["f"], to=kind.FLOAT),
            helper.make_node("Flatten", ["f"], ["flat"], axis=1),
            helper.make_node("Softmax", ["flat"], ["p"], axis=1),
        ]
        inputs = [helper.make_tensor_value_info(name, dtype, shape)]
        return OnnxBox(
            onnx_model(tmp_path / "m.onnx", nodes, inputs, [helper.make_tensor_value_info("p", kind.FLOAT, ["n", None])])
        )

    assert made("input_ids", ["n", "length"], kind.INT64).takes == "ids"
    images = made("x", ["n", 1, 4, 6], kind.FLOAT)
    assert (images.takes, images.channels_last, images.size) == ("images", False, (4, 6))
    assert images.probs(np.zeros((2, 1, 4, 6))).shape == (2, 24)
    last = made("x", ["n", 4, 6, 3], kind.UINT8)
    assert (last.channels_last, last.size, last.floats) == (True, (4, 6), False)


def test_a_folder_of_transformers_is_read_without_code_and_without_network(tmp_path):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=3
    )
    folder = tmp_path / "bert"
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    box = by_name(f"hf:{folder}")
    assert box.probs(["good film", "bad"]).shape == (2, 3)
    assert box.class_names == ("LABEL_0", "LABEL_1", "LABEL_2")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BadFile, match=r"no model\.safetensors"):
        by_name(f"hf:{folder}")
