from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch as th
from matplotlib.figure import Figure
from matplotlib.image import imread
from tiny_goal import TINY, tiny_arrays, tiny_model

import zoo
from proq_agent import GoalDataset, ProQ
from proq_agent.chance.edges import ChanceEdge
from zoo.data.tasks import make_task_env
from zoo.figures.canvas import draw_walls, saved_figure
from zoo.figures.curves import Curve, mean_and_band
from zoo.figures.learned_map import N_ROUNDS, LearnedMap, in_plane
from zoo.figures.maps import _draw_chance, draw_comparison, draw_difficulty, draw_map
from zoo.figures.maze_geometry import MazeGeometry
from zoo.plots import main
from zoo.runs.folder import RunFolder
from zoo.runs.learning_curves import read_curve, read_groups, read_trainings


@pytest.fixture(scope="module")
def model() -> ProQ:
    return tiny_model().learn(8, log_interval=None)


@pytest.fixture(scope="module")
def agent(model: ProQ, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "agent.zip"
    model.save(path)
    return path


def run_folder(root: Path, name: str, rates: list[float], after: int = 0, resumed_from: Path | None = None) -> Path:
    folder = root / "proq" / name
    RunFolder(folder, "env").write_config({"resumed_from": resumed_from and str(resumed_from / "agent.zip")})
    successes = np.array([[i < 10 * rate for i in range(10)] for rate in rates])
    np.savez(folder / "evaluations.npz", timesteps=after + np.arange(1, len(rates) + 1) * 100, successes=successes)
    (folder / "progress.csv").write_text("time/total_timesteps,train/loss,eval/mean\n100,3.5,\n150,,0.1\n200,2.5,\n")
    return folder


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_format_follows_the_suffix_and_is_repeatable(model, tmp_path, suffix, magic):
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    draw_map(model, first)
    draw_map(model, second)
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()


def test_odds_of_lotteries_that_share_an_exit_are_drawn_apart(model):
    low, high = LearnedMap(model).keypoints.min(axis=0), LearnedMap(model).keypoints.max(axis=0)
    edge = ChanceEdge(low, 0.1, high[None], np.ones(1), 9)
    lottery = replace(edge, exits=np.stack([high, low]), probabilities=np.array([0.7, 0.3]))
    drawn = copy.copy(model)
    drawn.chance_edges = (lottery, edge)
    axes = Figure().add_subplot()
    _draw_chance(axes, LearnedMap(drawn))
    labels = {text.get_text(): text.xyann for text in axes.texts if text.get_text()}
    assert set(labels) == {"70%", "30%", "100%"} and len(axes.patches) == 2
    assert labels["70%"] != labels["100%"]


def test_drawing_changes_neither_agent_nor_matplotlib(model, tmp_path):
    import matplotlib

    style = dict(matplotlib.rcParams)
    before = copy.deepcopy(model.policy.state_dict())
    draw_map(model, tmp_path / "map.png", title="a title")
    model.keypoints_without_barrier(3)
    assert dict(matplotlib.rcParams) == style
    assert all((before[name] == value).all() for name, value in model.policy.state_dict().items())


def test_walls_are_part_of_the_picture(model, tmp_path):
    draw_map(model, tmp_path / "plain.png")
    draw_map(model, tmp_path / "maze.png", MazeGeometry.of_spare_env(make_task_env("pointmaze-medium-navigate-v0")))
    assert (tmp_path / "plain.png").read_bytes() != (tmp_path / "maze.png").read_bytes()


def test_the_legend_names_what_is_drawn_and_nothing_else(model, tmp_path):
    draw_map(model, tmp_path / "plain.svg")
    draw_map(
        model, tmp_path / "teleport.svg", MazeGeometry.of_spare_env(make_task_env("pointmaze-teleport-navigate-v0"))
    )
    draw_comparison(model, tmp_path / "panels.svg", 2)
    plain, teleport, panels = (
        (tmp_path / f"{name}.svg").read_text(encoding="utf-8") for name in ("plain", "teleport", "panels")
    )
    for label in (">keypoint<", ">hop<"):
        assert plain.count(label) == teleport.count(label) == 1
    for label in (">portal<", ">its exits<"):
        assert (plain.count(label), teleport.count(label)) == (0, 1)
    assert panels.count(">keypoint<") == 1


def test_a_map_shows_what_lies_beneath_the_walls(tmp_path):
    """A wall covers the whole picture; what ψ says of it is what the picture is for."""
    maze = MazeGeometry(np.ones((1, 1), dtype=bool), 2.0, (0.5, 0.5), 2.0)
    shares = {}
    for filled in (True, False):
        with saved_figure(tmp_path / f"{filled}.png", 2.0, 2.0) as figure:
            axes = figure.add_subplot()
            axes.set_axis_off()
            axes.imshow(np.ones((2, 2)), cmap="Reds", vmin=0.0, vmax=1.0, extent=maze.bounds)
            draw_walls(axes, maze, filled)
        pixels = imread(tmp_path / f"{filled}.png")[..., :3]
        shares[filled] = float((pixels[..., 0] - pixels[..., 2] > 0.2).mean())
    assert shares[True] == 0.0 and shares[False] > 0.5


@pytest.mark.parametrize(
    "figure",
    [
        ["map", "--title", "tiny"],
        ["plan", "--start", "0.1", "0.1", "--goal", "0.9", "0.8"],
        ["distance", "--goal", "0.5", "0.5"],
        ["compare", "--updates", "2"],
    ],
    ids=lambda figure: figure[0],
)
def test_figures_of_an_agent(agent, tmp_path, figure, capsys):
    out = tmp_path / "sub" / "figure.png"
    assert main([*figure, "--agent", str(agent), "--out", str(out)]) == 0
    assert out.stat().st_size > 1000
    assert str(out) in capsys.readouterr().out


def test_plan_and_distance_of_a_task(agent, tmp_path):
    for figure in ("plan", "distance"):
        out = tmp_path / f"{figure}.svg"
        command = [figure, "--agent", str(agent), "--env", "pointmaze-medium-v0", "--task", "2", "--out", str(out)]
        assert main(command) == 0 and out.is_file()


def test_comparison_with_another_agent(agent, tmp_path):
    out = tmp_path / "compare.png"
    assert main(["compare", "--agent", str(agent), "--without", str(agent), "--out", str(out)]) == 0
    assert out.is_file()


def test_difficulty_is_drawn_where_the_data_are(tmp_path):
    model = tiny_model()
    bias = list(model.policy.classifier.parameters())[-1]
    bias.data.fill_(-100.0)
    with pytest.raises(ValueError, match="nothing here is in distribution"):
        draw_difficulty(model, tmp_path / "nowhere.png")
    bias.data.fill_(100.0)
    before = copy.deepcopy(model.policy.state_dict())
    draw_difficulty(model, tmp_path / "one.svg")
    assert all((before[name] == value).all() for name, value in model.policy.state_dict().items())
    model.save(tmp_path / "agent.zip")
    beside = ["--beside", str(tmp_path / "agent.zip"), "--titles", "this", "that"]
    out = tmp_path / "two.svg"
    assert main(["difficulty", "--agent", str(tmp_path / "agent.zip"), *beside, "--out", str(out)]) == 0
    one, two = ((tmp_path / f"{name}.svg").read_text(encoding="utf-8") for name in ("one", "two"))
    assert (two.count(">this<"), two.count(">that<"), two.count(">keypoint<")) == (1, 1, 1)
    assert (one.count("<image"), two.count("<image")) == (2, 3)  # the colour bar is one, too


def test_difficulty_is_that_around_the_agents_keypoints_by_other_states_each_time(monkeypatch):
    model, seen = tiny_model(), []
    list(model.policy.classifier.parameters())[-1].data.fill_(100.0)
    learned = LearnedMap(model)

    def measure(policy, points, states, keypoints):
        seen.append(states)
        assert policy is model.policy and th.equal(keypoints, policy.keypoints)
        return points[:, 0] + len(seen)

    monkeypatch.setattr("zoo.figures.learned_map.difficulty", measure)
    found = learned.difficulty(learned.keypoints)
    np.testing.assert_allclose(found, learned.keypoints[:, 0] + (N_ROUNDS + 1) / 2, rtol=1e-5)
    assert not th.equal(seen[0], seen[1])
    assert th.equal(seen[0].sort(dim=0).values, seen[1].sort(dim=0).values)


def test_coverage_of_a_file(tmp_path):
    np.savez(tmp_path / "data.npz", **tiny_arrays())
    out = tmp_path / "coverage.pdf"
    command = [
        "coverage",
        "--env",
        "pointmaze-medium-v0",
        "--dataset-path",
        str(tmp_path / "data.npz"),
        "--out",
        str(out),
    ]
    assert main(command) == 0 and out.is_file()


@pytest.mark.parametrize("goal_dim", [1, 3])
def test_goal_spaces_that_are_no_plane(tmp_path, goal_dim):
    arrays = tiny_arrays()
    goals = np.concatenate([arrays["observations"], arrays["observations"]], axis=1)[:, :goal_dim]
    model = ProQ(dataset=GoalDataset(**arrays, achieved_goals=goals), device="cpu", seed=0, **TINY)
    draw_map(model, tmp_path / "map.png")
    learned = LearnedMap(model)
    keypoints = learned.keypoints
    np.testing.assert_allclose(learned.to_goals(in_plane(keypoints)), keypoints)
    plan = learned.plan(np.array([0.1, 0.1]), np.array([0.9, 0.9]))
    assert plan.points.shape == (len(plan.nodes), goal_dim)


def test_map_agrees_with_the_agent(model):
    """The distance at a keypoint is the graph's, and ψ is a probability."""
    learned = LearnedMap(model)
    np.testing.assert_allclose(
        learned.distances(learned.keypoints, learned.keypoints[2]), learned.graph.distances[:, 2], rtol=1e-4, atol=1e-4
    )
    psi = learned.reachability(np.random.default_rng(0).uniform(size=(9000, 2)))
    assert psi.shape == (9000,) and (psi >= 0).all() and (psi <= 1).all()


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn."""
    drawn: list[Figure] = []

    @contextmanager
    def saved(*args):
        with saved_figure(*args) as figure:
            drawn.append(figure)
            yield figure

    for module in ("curves", "maps"):
        monkeypatch.setattr(f"zoo.figures.{module}.saved_figure", saved)
    return drawn


def test_curves_of_all_runs_of_an_env(tmp_path, figures):
    for number, rates in enumerate(([0.1, 0.5, 1.0], [0.3, 0.7])):
        run_folder(tmp_path, f"some-env-v0_{number + 1}", rates)
    run_folder(tmp_path, "other-v0_1", [0.2])
    out = tmp_path / "curves.png"
    assert main(["curves", "-f", str(tmp_path), "--env", "some-env-v0", "other-v0", "--out", str(out)]) == 0
    assert out.is_file()
    mean, first, second, other = figures[0].axes[0].lines
    assert (mean.get_label(), other.get_label()) == ("some-env-v0 (2 runs)", "other-v0 (1 run)")
    np.testing.assert_allclose(mean.get_xydata(), [[100, 20], [200, 60]])
    np.testing.assert_allclose(first.get_xydata(), [[100, 10], [200, 50], [300, 100]])
    np.testing.assert_allclose(second.get_xydata(), [[100, 30], [200, 70]])
    np.testing.assert_allclose(other.get_xydata(), [[100, 20]])
    assert len(figures[0].axes[0].collections) == 1  # the band of the two
    assert main(["curves", str(tmp_path / "proq" / "other-v0_1"), "--metric", "train/loss", "--out", str(out)]) == 0
    (loss,) = figures[1].axes[0].lines
    np.testing.assert_allclose(loss.get_xydata(), [[100, 3.5], [200, 2.5]])
    assert figures[1].axes[0].get_ylabel() == "train/loss"


def test_success_stands_below_the_progress_of_the_maps_where_it_was_logged(tmp_path, figures):
    def log(folder: Path, values: list[float]) -> None:
        lines = [f"{100 * number},{value}" for number, value in enumerate(values)]
        (folder / "progress.csv").write_text("\n".join(["time/total_timesteps,train/distance_per_step", *lines]))

    log(run_folder(tmp_path, "with-map_1", [0.5, 1.0]), [0.1, 0.4, 0.8])
    log(run_folder(tmp_path, "with-map_2", [0.5, 1.0]), [0.3, 0.6, 1.0])
    run_folder(tmp_path, "without_1", [0.2])
    command = ["curves", "-f", str(tmp_path), "--out", str(tmp_path / "curves.png"), "--env"]
    assert main([*command, "with-map", "without"]) == 0
    above, below = figures[0].axes
    np.testing.assert_allclose(above.lines[0].get_xydata(), [[0, 0.2], [100, 0.5], [200, 0.9]])
    assert len(below.lines) == 4 and above.lines[0].get_color() == below.lines[0].get_color()
    assert "each step of the data" in above.get_ylabel() and "success" in below.get_ylabel()
    assert main([*command, "without"]) == 0
    assert len(figures[1].axes) == 1


def test_curves_of_several_algorithms_are_told_apart(tmp_path):
    first = run_folder(tmp_path, "e_1", [0.1, 0.2])
    second = tmp_path / "gcbc" / "e_1"
    shutil.copytree(first, second)
    assert list(read_groups([first, second])) == ["proq, e", "gcbc, e"]
    assert list(read_groups([first])) == ["e"]


def test_a_resumed_run_and_the_one_before_are_one_training(tmp_path):
    first = run_folder(tmp_path, "e_1", [0.1, 0.2, 0.9])  # resumed from its second evaluation
    second = run_folder(tmp_path, "e_2", [0.3, 0.4], after=200, resumed_from=first)
    third = run_folder(tmp_path, "e_3", [0.5], after=400, resumed_from=second)
    other = run_folder(tmp_path, "e_4", [0.7])
    joined, single = read_trainings([first, second, third, other])
    assert joined.updates.tolist() == [100, 200, 300, 400, 500]
    np.testing.assert_allclose(joined.values, [10, 20, 30, 40, 50])
    assert single.updates.tolist() == [100]


def test_a_run_without_evaluations_is_left_out_with_a_note(tmp_path, capsys):
    run_folder(tmp_path, "e_1", [0.1, 0.2])
    (run_folder(tmp_path, "e_2", [0.3]) / "evaluations.npz").unlink()
    assert main(["curves", "-f", str(tmp_path), "--env", "e", "--out", str(tmp_path / "curves.png")]) == 0
    assert "left out a run" in (error := capsys.readouterr().err) and "e_2" in error


def test_runs_that_share_no_updates_are_named(tmp_path, capsys):
    run_folder(tmp_path, "e_1", [0.1])
    run_folder(tmp_path, "e_2", [0.1], after=500)
    assert main(["curves", "-f", str(tmp_path), "--env", "e", "--out", str(tmp_path / "curves.png")]) == 1
    assert "e: the runs share no updates: one ends at 100, another begins at 600" in capsys.readouterr().err
    assert not (tmp_path / "curves.png").exists()


def test_band_covers_what_all_runs_have_and_is_students(tmp_path):
    runs = [read_curve(run_folder(tmp_path, f"e_{i}", r)) for i, r in enumerate(([0.1, 0.5, 1.0], [0.3, 0.7]))]
    updates, mean, half = mean_and_band(runs)
    np.testing.assert_array_equal(updates, [100, 200])
    np.testing.assert_allclose(mean, [20.0, 60.0])
    np.testing.assert_allclose(half, 12.706 * 10.0, rtol=1e-4)  # t(0.975, 1) = 12.706; std / sqrt(2) = 10
    _, mean, half = mean_and_band([Curve(np.array([0, 10]), np.array([1.0, 2.0]))])
    assert mean.tolist() == [1.0, 2.0] and not half.any()


def test_column_of_progress_skips_empty_rows(tmp_path):
    curve = read_curve(run_folder(tmp_path, "e_1", [0.5]), "train/loss")
    assert curve.updates.tolist() == [100, 200] and curve.values.tolist() == [3.5, 2.5]


def test_odds_of_lotteries_that_share_an_exit_do_not_cover_each_other(tmp_path, figures):
    out = tmp_path / "map.png"
    assert main(["map", "--env", "pointmaze-teleport-stitch-v0", "-f", str(tmp_path / "none"), "--out", str(out)]) == 0
    figures[0].draw_without_rendering()  # at the resolution that extents are measured in
    boxes = [text.get_window_extent() for text in figures[0].axes[0].texts if "%" in text.get_text()]
    assert len(boxes) == 6
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_numbers_of_updates_are_short_but_not_silly(tmp_path, figures):
    folder = run_folder(tmp_path, "e_1", [0.1, 0.2])
    assert main(["curves", str(folder), "--out", str(tmp_path / "curves.png")]) == 0
    label = figures[0].axes[0].xaxis.get_major_formatter()
    assert [label(value) for value in (0, 250, 1000, 2500)] == ["0", "250", "1k", "2.5k"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["map", "--agent", "nowhere.zip"], "nowhere"),
        (["map"], "--env"),
        (["map", "--agent", "{shipped}", "--env", "pointmaze-medium-v0"], "trained on pointmaze-giant-navigate-v0"),
        (
            ["compare", "--agent", "{agent}", "--without", "{shipped}", "--env", "pointmaze-medium-v0"],
            "trained on pointmaze-giant-navigate-v0",
        ),
        (["map", "--env", "pointmaze-medium-navigate-v0", "--exp-id", "7"], "no run 7"),
        (["plan", "--agent", "{agent}", "--start", "0", "0"], "--goal"),
        (["plan", "--agent", "{agent}", "--start", "0", "0", "0", "--goal", "1", "1"], "coordinates"),
        (["distance", "--agent", "{agent}", "--task", "1"], "--env"),
        (["curves", "--env", "some-env-v0"], "train one"),
        (["curves", "."], "no evaluations.npz"),
        (["curves"], "--env"),
    ],
)
def test_bad_input_is_one_clear_line(agent, tmp_path, monkeypatch, capsys, command, words):
    monkeypatch.chdir(tmp_path)
    shipped = Path(zoo.__file__).parent / "agents" / "proq" / "pointmaze-giant-navigate-v0.zip"
    assert main([*(part.format(agent=agent, shipped=shipped) for part in command), "--out", "figure.png"]) == 1
    error = capsys.readouterr().err.strip()
    assert words in error and "\n" not in error
    assert not list(tmp_path.iterdir())


def test_unknown_suffix_is_refused_before_any_work(tmp_path, capsys):
    assert main(["map", "--agent", "nowhere.zip", "--out", str(tmp_path / "map.docx")]) == 1
    assert ".pdf" in capsys.readouterr().err


@pytest.mark.slow
def test_as_a_process(agent, tmp_path):
    out = tmp_path / "map.png"
    command = [sys.executable, "-m", "zoo.plots", "map", "--agent", str(agent), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert out.is_file()
