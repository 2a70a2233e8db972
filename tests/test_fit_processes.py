"""Fits over two processes: the loss curve of one process, all of them alike at the end, and failures that reach all."""

from __future__ import annotations

import json

import numpy as np
import pytest

import together
from aimwise import AIM
from aimwise.errors import BadSetting
from aimwise.processes import Share

pytest.importorskip("lightning_fabric")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("together")
    together.ended(together.started(out, *together.CURVES, *together.ENDS))
    return {
        name: [json.loads((out / f"{name}.{n}.json").read_text()) for n in range(2)]
        for name in (*together.CURVES, *together.ENDS)
    }


@pytest.mark.parametrize("name", together.CURVES)
def test_two_processes_learn_what_one_does(found, name):
    history, weights, queries, best, stopped = together.run(name, None)
    first, second = found[name]
    assert first == second  # to the last bit
    for mine, theirs in zip(history, first[0], strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], abs=1e-4)
        assert theirs["agreement"] == pytest.approx(mine["agreement"], abs=2e-3)
    assert first[2:] == [queries, best, stopped]
    near = [np.abs(np.subtract(weights[k], first[1][k])).mean() for k in weights]
    assert max(near) < 1e-4


def test_what_one_cannot_answer_is_raised_in_all(found):
    first, second = found["raises"]
    assert first == second
    assert first[0] == "BadBlackBox"
    assert "The black box raised ValueError on" in first[1]
    assert "tired" in first[1]


def test_questions_are_counted_over_all_processes(found):
    first, second = found["raises once"]
    assert first[:5] == second[:5]
    failed = first[2] - first[5] - second[5]
    assert 0 < failed < first[2] / 2  # the call that failed was counted, and nothing else


@pytest.mark.parametrize(("name", "reason"), [("interrupted", "interrupted"), ("out of queries", "queries")])
def test_all_stop_at_the_same_step_and_keep_the_same_epoch(found, name, reason):
    first, second = found[name]
    assert first[:5] == second[:5]
    assert first[4] == reason
    assert 0 < len(first[0]) < 3


def test_ctrl_c_before_the_first_epoch_is_over_and_a_collapse_are_raised_in_all(found):
    assert found["interrupted early"] == [["KeyboardInterrupt", ""]] * 2
    first, second = found["collapsed"]
    assert first == second
    assert first[0] == "Collapsed"


def test_rows_are_shared_out_evenly_and_all_count_once():
    for total in (1, 2, 5, 8):
        shares = [Share(rank, 3, total) for rank in range(3)]
        seen = [i for share in shares for i in range(total)[share.own]]
        assert sorted(seen) == list(range(total))
        assert [share.weight for share in shares] == [len(range(total)[share.own]) / total for share in shares]
        assert all(share.size >= 1 for share in shares)
        assert [share.idle for share in shares] == [rank >= total for rank in range(3)]


def test_other_engines_are_refused():
    with pytest.raises(BadSetting, match=r"engine='ray', wanted a lightning_fabric\.Fabric"):
        AIM().fit(together.rows, together.inputs()["table"], engine="ray")


def test_a_fabric_of_one_process_changes_nothing():
    from lightning_fabric import Fabric

    one = Fabric(accelerator="cpu", devices=1)
    assert together.run("aim, asked once", one) == together.run("aim, asked once", None)
    with pytest.raises(BadSetting, match="but the engine works on cpu"):
        AIM(device="meta").fit(together.rows, together.inputs()["table"], engine=one)
