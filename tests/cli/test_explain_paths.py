"""`regard explain paths`: the table and its JSON say the same."""

import json

from regard.cli import main

WORDS = ["explain", "paths", "--length", "101", "--window", "5", "--width", "64"]


def test_the_table_shows_layers_and_receptive_fields(capsys):
    assert main(WORDS) == 0
    shown = capsys.readouterr().out
    cells = {line[:36].strip(): line[36:].split() for line in shown.splitlines() if line[:1] != " "}
    assert cells["recurrence"][:4] == ["1", "all", "101", "100"]
    assert cells["convolution, window 5"][:4] == ["50", "201", "50", "50"]
    assert cells["causal convolution, window 5"][:2] == ["25", "101"]
    assert cells["dilated convolution, window 5"][:2] == ["6", "253"]
    assert cells["causal dilated convolution, window 5"][:2] == ["5", "125"]
    assert cells["attention within ±5"][:2] == ["20", "201"]
    assert cells["attention"][:2] == ["1", "all"]
    assert "1 + (k - 1)(2^L - 1)" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_the_json_holds_the_same_numbers(capsys):
    assert main([*WORDS, "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["causal dilated convolution, window 5"]["receptive_field"] == 125
    assert rows["causal dilated convolution, window 5"]["layers"] == 5
    assert rows["attention"]["receptive_field"] is None
