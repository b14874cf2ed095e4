"""
Damaged and hostile input of every kind: a sound answer or one clear error, whatever it is.

Some thousand cases run with the other tests; ``pytest tests/test_fuzz.py -n0 --fuzz 100000`` runs as many of each kind
as one likes, others every time.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch as th
import yaml
from agent_files import Members, as_stream, format_1, members_of, pickle_program, rewrite, with_header
from fuzzing import cases, changed_bytes, changed_json, harmless, hostile, hostile_numbers, hostile_text, leaves_nothing
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.logger import Logger
from tiny_goal import tiny_arrays, tiny_model

import zoo
from proq_agent import GoalDataset, ProQ
from proq_agent.common.archive import read_archive
from proq_agent.common.goals import GoalSpec
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.shards import find_shards
from proq_agent.common.tensor_file import check_finite
from proq_agent.proq.policies import ProQPolicy
from wrappers import make_goal_env
from zoo import benchmark, enjoy, generate, optimize, plots, train
from zoo.config import load_hyperparams
from zoo.data.tasks import make_task_env
from zoo.plain_yaml import compose, construct
from zoo.registry import ALGOS, algorithm

KEYS = ("observation", "achieved_goal", "desired_goal")


@cache
def agent(version: int = 2) -> Members:
    """A small agent that has learned for a few updates."""
    stream = io.BytesIO()
    tiny_model().learn(6, log_interval=None).save(stream)
    return members_of(stream) if version == 2 else format_1(stream)


@cache
def agent_bytes(version: int) -> bytes:
    return as_stream(agent(version)).getvalue()


@cache
def policy_file() -> Members:
    stream = io.BytesIO()
    tiny_model().policy.save(stream)
    return members_of(stream)


@cache
def rival(algo: str) -> Members:
    """A small agent of another algorithm."""
    sizes = {"hidden_sizes": [8]}
    data = GoalDataset(**tiny_arrays())
    model = algorithm(algo)(dataset=data, batch_size=16, policy_kwargs=sizes, seed=0, device="cpu")  # type: ignore
    stream = io.BytesIO()
    model.learn(2, log_interval=None).save(stream)
    return members_of(stream)


def use(model: OfflineAlgorithm) -> None:
    """Whatever a file made of an agent: it is finite, acts, learns and is saved, or says that it cannot."""
    for name, state in {"policy": model.policy.state_dict(), "training": model._training_state()}.items():
        check_finite(state, name, model.policy.may_be_infinite)  # type: ignore[arg-type]
    for n in (None, 3):
        shape = (2,) if n is None else (n, 2)
        actions, state = model.predict({key: np.full(shape, 0.4, np.float32) for key in KEYS})
        assert np.isfinite(actions).all() and model.action_space.contains(actions if n is None else actions[0])
    model.save(io.BytesIO())
    if model.batch_size < 100 and not getattr(model, "compile", False):
        model.set_dataset(GoalDataset(**tiny_arrays(3, 10)))
        model.set_logger(Logger(None, []))  # SB3's own makes a folder
        model.learn(1, log_interval=None, reset_num_timesteps=False)


def load_and_use(stream: io.BytesIO, kind: type[OfflineAlgorithm] = ProQ) -> None:
    with harmless(len(stream.getvalue())):
        use(kind.load(stream, device="cpu"))


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def _sound_agents_are_used() -> None:
    """Also loads whatever is loaded when it is first needed, as compiled kernels and packages of environments."""
    for version in (1, 2):
        use(ProQ.load(as_stream(agent(version)), device="cpu"))
    for package in ("h5py", "minari", "pyarrow.parquet", "pyarrow.compute"):
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    for algo in ALGOS.keys() - {"proq"}:
        use(algorithm(algo).load(as_stream(rival(algo)), device="cpu"))
    with contextlib.suppress(ValueError):
        make_goal_env("no-such-env-v0")


@pytest.mark.parametrize("version", [1, 2])
@cases(400)
@given(st.data())
def test_damaged_agent_files(version: int, data: st.DataObject) -> None:
    content = data.draw(changed_bytes(agent_bytes(version)))
    sound = read_archive(io.BytesIO(agent_bytes(version)))
    with harmless(len(content)):
        archive = read_archive(io.BytesIO(content))
        # Bytes that mean nothing to us, such as a time stamp; all else is recognised.
        assert archive.metadata == sound.metadata
        for name, tensor in sound.states["policy"].items():
            assert th.equal(archive.states["policy"][name], tensor)


@pytest.mark.parametrize("version", [1, 2])
@cases(300)
@given(st.data())
def test_agent_files_with_changed_members_and_fitting_hashes(version: int, data: st.DataObject) -> None:
    members = dict(agent(version))
    name = data.draw(st.sampled_from(sorted(members.keys() - {"metadata.json"})))
    stream = as_stream(members | {name: data.draw(changed_bytes(members[name]))})
    with harmless(len(stream.getvalue())):
        read_archive(stream)


@cases(200)
@given(st.data())
def test_agent_files_with_changed_metadata(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([1, 2]))
    members = agent(version)
    header = data.draw(changed_json(members["metadata.json"]))
    stream = io.BytesIO()
    rewrite(stream, members | {"metadata.json": json.dumps(header).encode()})
    load_and_use(stream)


tensors = st.builds(
    lambda shape, dtype, value: th.full(shape, 1).to(dtype) * value,
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from([th.float32, th.float64, th.float16, th.int64, th.uint8, th.bool]),
    st.sampled_from([0, 1, -1, 1e-38, 1e38, float("nan"), float("inf"), 7]),
)


@st.composite
def changed_tensors(draw: st.DrawFn, state: dict[str, th.Tensor]) -> dict[str, th.Tensor]:
    state = dict(state)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(state)))
        way = draw(st.sampled_from(["value", "value", "one value", "scale", "other", "remove", "rename"]))
        value = draw(st.sampled_from([0.0, -1.0, 1e-38, 1e38, 3e38, float("nan"), float("inf"), 1e10]))
        tensor = state[name].clone()
        if way == "other":
            state[name] = draw(tensors)
        elif way == "remove":
            del state[name]
        elif way == "rename":
            state[draw(hostile_text) or "x"] = state.pop(name)
        elif way == "scale" and tensor.is_floating_point():
            state[name] = tensor * value
        elif tensor.numel() and tensor.is_floating_point():
            tensor.view(-1)[: None if way == "value" else 1] = value
            state[name] = tensor
        else:
            state[name] = tensor ^ 1 if tensor.dtype == th.uint8 else tensor
        if not state:
            break
    return state


@cases(150)
@given(st.data())
def test_agent_files_with_changed_tensors(data: st.DataObject) -> None:
    members = dict(agent())
    name = data.draw(st.sampled_from(["policy.safetensors", "policy.safetensors", "training.safetensors"]))
    state = data.draw(changed_tensors(safetensors.torch.load(members[name])))
    load_and_use(as_stream(members | {name: safetensors.torch.save(state)}))


@cases(100)
@given(st.data())
def test_agent_files_of_other_algorithms(data: st.DataObject) -> None:
    algo = data.draw(st.sampled_from(sorted(ALGOS.keys() - {"proq"})))
    members = dict(rival(algo))
    if data.draw(st.booleans()):
        state = data.draw(changed_tensors(safetensors.torch.load(members["policy.safetensors"])))
        stream = as_stream(members | {"policy.safetensors": safetensors.torch.save(state)})
    else:
        stream = io.BytesIO()
        header = data.draw(changed_json(members["metadata.json"]))
        rewrite(stream, members | {"metadata.json": json.dumps(header).encode()})
    load_and_use(stream, algorithm(algo))


@cases(150)
@given(st.data())
def test_agent_files_with_changed_states_of_optimisers(data: st.DataObject) -> None:
    members = dict(agent())
    rest = data.draw(changed_json(members["training.json"]))
    load_and_use(as_stream(members | {"training.json": json.dumps(rest).encode()}))


OPCODES = b"\x80\x02}q\x00(X]tuh\x01\x85\x86R.N0cK\x05J\x88\x89e"  # of what torch.save writes


@cases(300)
@given(st.binary(max_size=200) | st.lists(st.sampled_from(OPCODES), max_size=200).map(bytes))
def test_any_pickle(program: bytes) -> None:
    stream = as_stream(with_header({**agent(1), "policy.pth": pickle_program(program)}))
    with harmless(len(stream.getvalue())):
        read_archive(stream)


@cases(100)
@given(st.data())
def test_files_of_a_policy_alone(data: st.DataObject) -> None:
    members = policy_file()
    header = data.draw(changed_json(members["metadata.json"]))
    stream = io.BytesIO()
    rewrite(stream, members | {"metadata.json": json.dumps(header).encode()})
    with harmless(len(stream.getvalue())):
        policy = ProQPolicy.load(stream, device="cpu")
        check_finite(policy.state_dict(), "policy", policy.may_be_infinite)


# ---- datasets ----------------------------------------------------------------------------------------


@cache
def npz_bytes(compressed: bool) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **tiny_arrays(2, 6))  # type: ignore[arg-type]
    return buffer.getvalue()


def read_dataset(folder: Path, content: bytes) -> None:
    path = folder / "set.npz"
    path.write_bytes(content)
    with leaves_nothing(folder), harmless(len(content)):
        dataset = GoalDataset.from_npz(path)
        for array in (dataset.observations, dataset.actions, dataset.achieved_goals):
            assert array.dtype == th.float32 and array.isfinite().all()


@cases(300)
@given(data=st.data())
def test_damaged_npz(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    read_dataset(_folder(tmp_path_factory), data.draw(changed_bytes(npz_bytes(data.draw(st.booleans())))))


arrays = st.builds(
    lambda values, shape, dtype: np.resize(np.array(values, dtype=float), shape).astype(dtype),
    st.lists(hostile_numbers.filter(lambda x: x == x and abs(x) < 2**31), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), max_size=3),
    st.sampled_from(["f4", "f8", "i4", "?", "U3", "c8", "u1", "f2"]),
)


@cases(200)
@given(changes=st.dictionaries(st.sampled_from([*tiny_arrays(1, 2), "achieved_goals", "x"]), arrays | st.none()))
def test_npz_with_other_arrays(tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]) -> None:
    content = {key: value for key, value in (tiny_arrays(2, 6) | changes).items() if value is not None}
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    read_dataset(_folder(tmp_path_factory), buffer.getvalue())


described = "{{'descr': {!r}, 'fortran_order': {}, 'shape': {}}}"
headers = st.builds(described.format, hostile | st.just("<f4"), hostile, hostile)


@cases(150)
@given(header=headers, rest=st.binary(max_size=40))
def test_npz_with_any_header(tmp_path_factory: pytest.TempPathFactory, header: str, rest: bytes) -> None:
    encoded = header.encode()[:60000]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        data = b"\x93NUMPY\x01\x00" + len(encoded).to_bytes(2, "little") + encoded + rest
        for name in ("observations", "actions", "terminals"):
            file.writestr(f"{name}.npy", data)
    read_dataset(_folder(tmp_path_factory), buffer.getvalue())


_folders: list[Path] = []


def _folder(factory: pytest.TempPathFactory) -> Path:
    """One for all cases: making thousands takes longer than they do."""
    if not _folders:
        _folders.append(factory.mktemp("fuzz"))
    return _folders[0]


@cache
def parquet_bytes(compression: str) -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    buffer = io.BytesIO()
    columns = {name: pa.array(list(array)) for name, array in tiny_arrays(2, 6).items()}
    pq.write_table(pa.table(columns), buffer, row_group_size=7, compression=compression)
    return buffer.getvalue()


@cases(200)
@given(data=st.data())
def test_damaged_parquet(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = parquet_bytes(data.draw(st.sampled_from(["none", "zstd", "snappy"])))
    half = len(content) // 2  # the second is what the file says of itself
    head, tail = content[:half], content[half:]
    content = data.draw(changed_bytes(content) | changed_bytes(tail).map(lambda tail: head + tail))
    path = _folder(tmp_path_factory) / "set.parquet"
    path.write_bytes(content)
    with harmless(len(content)):
        (shard,) = find_shards(path)
        for block in shard.read(GoalSpec()):
            assert all(len(array) == len(block["terminals"]) for array in block.values())


# ---- YAML --------------------------------------------------------------------------------------------


yaml_texts = st.text(alphabet="ab:-[]{}&*!<?|>%@#'\"\n 10.,~\0é", max_size=80)


@cases(100)
@given(yaml_texts | hostile.map(yaml.safe_dump))
def test_any_yaml(text: str) -> None:
    with harmless(len(text)):
        construct(compose(text, "the text"), "the text")


@cache
def hyperparameters() -> str:
    return (Path(zoo.__file__).parent / "hyperparams" / "proq.yml").read_text(encoding="utf-8")


@cases(40)
@given(data=st.data())
def test_damaged_hyperparameter_files(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = _folder(tmp_path_factory) / "own.yml"
    path.write_bytes(data.draw(changed_bytes(hyperparameters().encode())))
    with harmless(path.stat().st_size):
        settings, total = load_hyperparams("pointmaze-giant-stitch-v0", conf_file=path)
        assert isinstance(settings, dict) and (total is None or total > 0)


names = st.sampled_from(
    ["batch_size", "policy_kwargs.hidden_sizes", "planning", "goals.value.near", "seed", "x.y", ".", ""]
)


@cases(80)
@given(names, yaml_texts | hostile.map(yaml.safe_dump) | hostile_text)
def test_any_override(name: str, text: str) -> None:
    with harmless(len(text)):
        load_hyperparams("pointmaze-giant-stitch-v0", overrides=[f"{name}:{text}"])


# ---- Minari ------------------------------------------------------------------------------------------


SPEC = json.dumps(
    {
        "id": "TinyGoal-v0",
        "entry_point": "tiny_goal:TinyGoalEnv",
        "kwargs": {"limit": 3, "reach": 0.5},
        "max_episode_steps": 7,
        "additional_wrappers": [],
        "vector_entry_point": None,
    }
)
BOX = json.dumps({"type": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, -1.0], "high": [1.0, 1.0]})
METADATA = json.dumps({"env_spec": SPEC, "action_space": BOX, "data_format": "hdf5", "total_episodes": 2})


@cache
def hdf5_bytes(compression: str | None) -> bytes:
    """Two episodes as Minari stores them."""
    import h5py

    buffer = io.BytesIO()
    rows = {name: array.reshape(2, 6, -1) for name, array in tiny_arrays(2, 6).items()}
    with h5py.File(buffer, "w", track_order=True) as file:
        for k in range(2):
            seen, actions = rows["observations"][k], rows["actions"][k, :-1]
            arrays = {"observations/observation": seen, "observations/achieved_goal": seen, "actions": actions}
            for name, array in arrays.items():
                options = {"chunks": True, "maxshape": (None, 2), "compression": compression}
                file.create_dataset(f"episode_{k}/{name}", data=array, **options)
    return buffer.getvalue()


def minari_folder(factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(_folder(factory) / "minari"))
    folder = _folder(factory) / "minari" / "fuzz" / "set-v0" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cases(200)
@given(data=st.data())
def test_metadata_of_minari_datasets(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    folder = minari_folder(tmp_path_factory, monkeypatch)
    path = folder / "metadata.json"
    if data.draw(st.booleans()):
        content = json.loads(METADATA) | {"env_spec": json.dumps(data.draw(changed_json(SPEC)))}
    else:
        content = data.draw(changed_json(METADATA))
    path.write_text(json.dumps(content))
    with leaves_nothing(folder):
        for use_it in (GoalDataset.from_minari, lambda name: make_task_env(f"minari:{name}").close()):
            with harmless(path.stat().st_size):
                use_it("fuzz/set-v0")


@cases(400)
@given(data=st.data())
def test_damaged_hdf5_of_minari_datasets(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    folder = minari_folder(tmp_path_factory, monkeypatch)
    (folder / "metadata.json").write_text(METADATA)
    content = data.draw(changed_bytes(hdf5_bytes(data.draw(st.sampled_from([None, "gzip"])))))
    (folder / "main_data.hdf5").write_bytes(content)
    with leaves_nothing(folder), harmless(len(content)):
        dataset = GoalDataset.from_minari("fuzz/set-v0")
        assert dataset.achieved_goals.isfinite().all() and len(dataset) == 12


# ---- command lines -----------------------------------------------------------------------------------


VALUES = (
    "",
    "-1",
    "0",
    "1",
    "9" * 30,
    "nan",
    "inf",
    "x",
    "/",
    "../x",
    "\0",
    "-",
    "--",
    "[[",
    "a" * 3000,
    "%s",
    "é",
    "1e9",
)
COMMANDS = {
    "train": train,
    "enjoy": enjoy,
    "optimize": optimize,
    "benchmark": benchmark,
    "plots": plots,
    "generate": generate,
}


@cases(60)
@given(data=st.data())
def test_any_command_line(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    """Of commands that cannot succeed: their environment or their dataset is not there."""
    folder = _folder(tmp_path_factory) / "work"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    name = data.draw(st.sampled_from(sorted(COMMANDS)))
    parser = COMMANDS[name].build_parser()
    options = sorted({option for action in parser._actions for option in action.option_strings} - {"-h", "--help"})
    options += ["--out", "--goal", "--task", "--metric"]
    argv = ["curves", "--out", "x.png", "none"] if name == "plots" else ["--env", "no-such-env-v0"]
    for _ in range(data.draw(st.integers(1, 3))):
        argv += [data.draw(st.sampled_from(options)), data.draw(st.sampled_from(VALUES) | hostile_text)]
    error = io.StringIO()
    with leaves_nothing(folder), contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = COMMANDS[name].main(argv)
        except SystemExit as exit_:  # argparse's own
            code = exit_.code
    assert code in (1, 2), (argv, code)
    assert "Traceback" not in error.getvalue() and "error: " in error.getvalue(), (argv, error.getvalue())


# ---- acting ------------------------------------------------------------------------------------------


@cache
def actor() -> ProQ:
    return tiny_model(planning={"patience": 2})


points = st.lists(st.floats(width=32, allow_nan=True) | st.floats(-2.0, 2.0), min_size=0, max_size=4)
observations = st.fixed_dictionaries({key: points | hostile | points.map(np.array) | tensors for key in KEYS})


@st.composite
def changed_states(draw: st.DrawFn) -> Any:
    """What ``predict`` returned, of an agent that was stuck twice, with a part that is something else."""
    *parts, snags = actor().predict(dict.fromkeys(KEYS, np.full(2, 0.4, np.float32)))[1] or ()
    parts.append(np.full((1, 2, snags.shape[2]), 0.5))
    i = draw(st.integers(0, len(parts) - 1))
    part, value = parts[i].astype(np.float64), draw(st.floats() | st.floats(-2.0, 2.0))
    part.flat[draw(st.integers(0, part.size - 1))] = value
    others = [part, np.full(part.shape, value), part[0], np.concatenate([part, part]), np.repeat(part, 2, axis=-1)]
    parts[i] = draw(hostile | points.map(np.array) | st.sampled_from(others))
    return tuple(parts)


@cases(400)
@given(observations | hostile)
def test_any_observation(observation: Any) -> None:
    with harmless(1000):
        actions, _ = actor().predict(observation)
        assert np.isfinite(actions).all()


@cases(400)
@given(st.none() | hostile | changed_states(), st.none() | st.booleans() | hostile)
def test_any_state(state: Any, start: Any) -> None:
    with harmless(1000):
        actions, _ = actor().predict(dict.fromkeys(KEYS, np.full(2, 0.4, np.float32)), state, start)
        assert np.isfinite(actions).all()


@cases(150)
@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=4))
def test_any_numbers_seen(rows: list[tuple[float, float]]) -> None:
    array = np.array(rows, dtype=np.float32)
    with harmless(1000):
        actions, _ = actor().predict(dict.fromkeys(KEYS, array))
        assert np.isfinite(actions).all() and all(actor().action_space.contains(action) for action in actions)
