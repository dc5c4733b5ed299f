"""`query`, `status`, `ledger`, `export`, `alerts` and `serve` take a pipeline or a store, and only
read.
"""

from __future__ import annotations

import hashlib
import signal

import pytest

from tests.cli.outcome import Outcome
from tests.cli.test_serve import serving, written

VERBS = {
    "query": ("query", "{where}", "counts"),
    "describe": ("query", "{where}", "--json"),
    "status": ("status", "{where}"),
    "ledger show": ("ledger", "show", "{where}"),
    "ledger verify": ("ledger", "verify", "{where}"),
    "export": ("export", "{where}", "{folder}/out/public.db"),
    "alerts": ("alerts", "{where}"),
}


def content(folder):
    """Every file, but those that SQLite keeps beside an open database, by its digest."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.fixture
def published(tmp_path, capsys):
    """A folder with a pipeline and what it has published, which others may only read."""
    path = written(tmp_path)
    assert Outcome(capsys, "run", str(path), "--log", "json").code == 0
    (tmp_path / "out").mkdir()
    (tmp_path / "taps.db").chmod(0o400)
    return tmp_path


@pytest.mark.parametrize("where", ["taps.toml", "taps.db"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_reads_a_pipeline_or_its_store_and_changes_nothing(published, capsys, verb, where):
    before = content(published)
    tokens = (each.format(where=published / where, folder=published) for each in VERBS[verb])
    done = Outcome(capsys, *tokens)
    assert done.code == 0, done.err
    assert content(published) == before


@pytest.mark.slow
@pytest.mark.parametrize("where", ["taps.toml", "taps.db"])
def test_a_service_changes_nothing_but_its_copy(published, where):
    before = content(published)
    with serving("serve", published / where, "--listen", "127.0.0.1:0") as (process, asking):
        assert asking.get("/v1/streams/taps/releases?last=6").status_code == 200
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert content(published) == before
    assert {path.name for path in published.iterdir() if path.is_dir()} == {"out", "taps.db.copy"}
