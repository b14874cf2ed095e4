"""Networks as ONNX: plain operators of an old opset, named inputs, batches of any size."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tiny_goal import TINY, tiny_model

from zoo.exporting.onnx_files import OPSET, check_packages, write_networks

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# In the tables of supported operators of Unity's Sentis 1.2 and later.
PLAIN = {
    *("Abs", "Add", "Cast", "Clip", "Concat", "Constant", "Cos", "Div", "Erf", "Gather", "Gemm", "Greater"),
    *("Identity", "Less", "MatMul", "Max", "Min", "Mul", "Pow", "ReduceMax", "ReduceMean", "ReduceSum", "Reshape"),
    *("Shape", "Sigmoid", "Sin", "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "TopK", "Transpose"),
    *("Unsqueeze", "Where"),
}
INPUTS = {
    "actor": {"observation": 2, "achieved_goal": 2, "desired_goal": 2},
    "encoder": {"goal": 2},
    "embedder": {"location": 6},
    "classifier": {"location": 6},
    "distance": {"starts": 10, "ends": 10},
}


def test_operators_are_plain_and_inputs_have_names(tmp_path):
    features = {"n_fourier_features": 4, "classifier_scale": 1.0, "dropout": 0.5}
    agent = tiny_model(policy_kwargs=TINY["policy_kwargs"] | features)
    agent.policy.set_training_mode(False)
    write_networks(agent, tmp_path)
    assert not agent.policy.training
    assert {path.stem for path in tmp_path.iterdir()} == set(INPUTS)
    for name, inputs in INPUTS.items():
        model = onnx.load(tmp_path / f"{name}.onnx")
        onnx.checker.check_model(model)
        assert [(each.domain, each.version) for each in model.opset_import] == [("", OPSET)] and OPSET <= 15
        assert {node.op_type for node in model.graph.node} <= PLAIN
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx", providers=["CPUExecutionProvider"])
        batches = {"starts": "rows", "ends": "columns"}
        shapes = {key: [batches.get(key, "batch"), n] for key, n in inputs.items()}
        assert {each.name: each.shape for each in session.get_inputs()} == shapes
        for batch in (0, 1, 3):
            (output,) = session.run(None, {key: np.zeros((batch, n), np.float32) for key, n in inputs.items()})
            assert len(output) == batch


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match="pip install onnx onnxruntime"):
        check_packages()
