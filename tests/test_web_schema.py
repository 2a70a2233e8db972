"""Requests made up from the service's own description find no server error, and a short load finds none either."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from aimwise.web.app import Settings, create
from web_service import explainers

schemathesis = pytest.importorskip("schemathesis")
CHECKS = schemathesis.checks
WORK = ["/v1/explain", "/v1/ask"]
FIELDS = {"texts": "news", "images": "pictures", "rows": "people"}

app = create(explainers(), settings=Settings(any_host=True, max_items=8))
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


FULL = settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


def turned(body: Any) -> None:
    """Most requests are turned to an explainer that takes their inputs, or nearly all would be refused."""
    if not isinstance(body, dict) or not len(str(body)) % 4:
        return
    given = [field for field in FIELDS if isinstance(body.get(field), list) and body[field]]
    for field in given[1:]:
        del body[field]
    body["explainer"] = FIELDS.get(given[0] if given else "", "news")
    body.pop("classes", None)
    if given and "keep" in body:
        body["keep"] = [[0] for _ in body[given[0]]]


def status(case: Any) -> int:
    answer = case.call()
    assert answer.status_code < 500, (case.body, answer.text)
    names = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
    case.validate_response(answer, checks=[CHECKS.CHECKS.get_one(name) for name in names])
    return answer.status_code


@schema.exclude(path=WORK).parametrize()
@FULL
def test_no_request_finds_a_server_error(case: Any) -> None:
    status(case)


@pytest.mark.parametrize("path", WORK)
def test_no_request_for_work_finds_a_server_error(path: str) -> None:
    """Answers of the explainers themselves are among them, and refusals too."""
    seen: Counter[int] = Counter()

    @FULL
    @given(case=schema[path]["POST"].as_strategy())
    def asked(case: Any) -> None:
        turned(case.body)
        seen[status(case)] += 1

    asked()
    assert seen[200] >= 10, seen
    assert seen[422] >= 10, seen


def test_a_short_load_has_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The long one is `python -m benchmarks.serve`; here its shape is held, not its figures, which hang on the machine."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    from benchmarks.serve import fitted, measured

    fitted(tmp_path, method="occlusion")
    found = measured(2.0, 20, tmp_path, rounds=1)
    assert (found["errors"], found["exit"]) == (0, 0)
    assert found["many_clients"]["requests"] > 40
    assert found["p99_over_median"] < 10
    assert found["throughput_ratio"] > 1.5
