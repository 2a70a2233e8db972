"""Requests made up from the service's own description find no server error, and a short load finds none either."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from aimwise.web.app import Settings, create
from test_web import explainers

schemathesis = pytest.importorskip("schemathesis")
CHECKS = schemathesis.checks
SEEN: Counter[int] = Counter()

app = create(explainers(), settings=Settings(any_host=True, max_items=8))
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@schema.parametrize()
@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_finds_a_server_error(case: Any) -> None:
    if isinstance(case.body, dict) and case.body.get("explainer") is not None:
        case.body["explainer"] = "news" if "texts" in case.body else "pictures" if "images" in case.body else "people"
    answer = case.call()
    SEEN[answer.status_code] += 1
    assert answer.status_code < 500, (case.body, answer.text)
    names = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
    case.validate_response(answer, checks=[CHECKS.CHECKS.get_one(name) for name in names])


def test_the_requests_were_not_all_refused() -> None:
    """After those above: answers of the explainers themselves are among them, and refusals too."""
    assert SEEN[200] >= 20, SEEN
    assert SEEN[422] >= 20, SEEN


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
