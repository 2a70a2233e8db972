"""The cells of a study on dask; tests of Ray stand in test_pool.py, where there is a cluster."""

from __future__ import annotations

import pytest

import toy_study

distributed = pytest.importorskip("distributed")


def test_cells_run_on_a_dask_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    made = toy_study.study(tmp_path / "results")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        done = made.run(toy_study.CELLS[:6], jobs=2, engine="dask")
        assert [one.state for one in done] == ["run"] * 6
        assert made.run(toy_study.CELLS[:6], jobs=2, engine="dask") == []
    assert sorted(r["sum"] for r in made.store.records()) == [1, 2, 3, 4, 5, 6]
    assert len((tmp_path / "log").read_text().splitlines()) == 12  # begun and ended once each
