"""regard explain sinusoidal shows T(k), the matrix that moves every position by k."""

import json

import pytest
import torch

from regard.cli import main


def test_the_matrix_of_a_shift_is_shown_with_what_it_makes_of_a_position(capsys):
    assert main(["explain", "sinusoidal"]) == 0
    shown = capsys.readouterr().out
    assert "PE[p + 3] = T(3) PE[p] for every p, here T(3) of width 4: turns by 3 w[i]" in shown
    assert "  -0.9900   0.1411   0.0000   0.0000\n  -0.1411  -0.9900   0.0000   0.0000" in shown
    assert main(["explain", "sinusoidal", "--json"]) == 0
    shift = json.loads(capsys.readouterr().out)["shift"]
    at = torch.tensor([5.0, 5 / 100], dtype=torch.float64)
    five = torch.stack([at.sin(), at.cos()], -1).flatten().tolist()
    assert shift["after"] == pytest.approx(five, abs=1e-12)
    matrix = torch.tensor(shift["matrix"], dtype=torch.float64)
    assert torch.allclose(matrix @ matrix.mT, torch.eye(4, dtype=torch.float64))


def test_other_mechanisms_have_no_such_matrix(capsys):
    assert main(["explain", "learned", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shift"] is None
