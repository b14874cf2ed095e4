"""The import graph of the three packages, drawn from their source: who may know whom, and what needs no PyTorch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("proq_agent", "wrappers", "zoo")
COMMANDS = (
    *("train", "enjoy", "benchmark", "optimize", "plots", "generate", "bench", "expert"),
    *("diagnose", "explore", "export", "push_to_hub", "load_from_hub"),
)
LONGEST_CHAIN = 8  # modules
# From the bottom to the top, where the longest prefix counts. Modules of a layer may import each other, without cycles.
LAYERS = (
    ("proq_agent.common",),
    ("proq_agent.chance", "proq_agent.quasimetric"),
    ("proq_agent.planning",),
    ("proq_agent",),  # the algorithms, and the package that names them
    ("wrappers",),
    ("zoo.data", "zoo.worlds"),
    ("zoo.registry", "zoo.cli", "zoo.schema", "zoo.config", "zoo.plain_yaml"),
    ("zoo.figures",),
    ("zoo.runs",),
    ("zoo.benchmarking", "zoo.exploring"),
    ("zoo",),  # the commands and the examples
)


def layer_of(module: str) -> int:
    fits = [
        (len(prefix), level)
        for level, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if f"{module}.".startswith(f"{prefix}.")
    ]
    return max(fits)[1]


@cache
def modules() -> dict[str, ast.Module]:
    """Source of every module by its name."""
    found = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(tree: ast.AST, for_types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import statement, within functions too; those that only type checkers see if they are wanted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif for_types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from imports(node, for_types)


def home(package: str, name: str) -> str:
    """The module that a name imported from another one comes from: packages hand on what others define."""
    if f"{package}.{name}" in modules():
        return f"{package}.{name}"
    for node in imports(modules()[package], for_types=True):
        if isinstance(node, ast.ImportFrom) and node.module in modules() and name in {a.name for a in node.names}:
            return home(node.module, name)
    return package


@cache
def graph(for_types: bool = False) -> dict[str, frozenset[str]]:
    """Which modules each module imports."""
    edges: dict[str, frozenset[str]] = {}
    for name, tree in modules().items():
        found: set[str] = set()
        for node in imports(tree, for_types):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if alias.name in modules()}
            else:
                assert node.level == 0, f"{name} imports relatively"
                if node.module in modules():
                    found |= {home(str(node.module), alias.name) for alias in node.names}
        edges[name] = frozenset(found)
    return edges


def longest_chain() -> list[str]:
    """Of modules that import each the next; fails on a cycle."""
    chains: dict[str, list[str]] = {}

    def chain(module: str, above: tuple[str, ...] = ()) -> list[str]:
        assert module not in above, f"a cycle: {' > '.join((*above[above.index(module) :], module))}"
        if module not in chains:
            below = [chain(other, (*above, module)) for other in sorted(graph()[module])]
            chains[module] = [module, *max(below, key=len, default=[])]
        return chains[module]

    return max((chain(module) for module in graph()), key=len)


def test_nothing_imports_upwards_not_even_for_its_types() -> None:
    edges = [(module, other) for module, below in graph(for_types=True).items() for other in below]
    assert len(edges) > 100
    against = [f"{module} > {other}" for module, other in edges if layer_of(other) > layer_of(module)]
    assert against == []


def test_there_is_no_cycle_and_no_long_chain() -> None:
    chain = longest_chain()
    assert len(chain) <= LONGEST_CHAIN, " > ".join(chain)


def test_algorithms_do_not_know_each_other() -> None:
    shared = {"common", "chance", "quasimetric", "planning"}
    for module, below in graph(for_types=True).items():
        package, _, own = ".".join(module.split(".")[:2]).partition(".")
        if package == "proq_agent" and own and own not in shared:
            assert {other.split(".")[1] for other in below} <= {own, *shared}, module


def test_parsed_options_stay_with_the_commands() -> None:
    commands = {ROOT / "zoo" / f"{name}.py" for name in (*COMMANDS, "cli")}
    examples = set((ROOT / "zoo" / "examples").glob("*.py"))
    for path in {*(ROOT / "zoo").rglob("*.py")} - commands - examples:
        assert "argparse" not in path.read_text(encoding="utf-8"), path


def test_every_command_is_among_those_tested() -> None:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "zoo").glob("*.py")}
    assert {name for name, source in sources.items() if "\ndef main(" in source} == set(COMMANDS)


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a new process has loaded in the end."""
    code = f"import contextlib, io, sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_quick_for_it_loads_nothing_heavy(name: str) -> None:
    help_ = (
        f"from zoo.{name} import main\nwith contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):"
    )
    loaded = loaded_by(f"{help_} main(['--help'])")
    assert "zoo" in loaded and not loaded & {"torch", "matplotlib", "scipy", "gymnasium", "stable_baselines3", "numba"}


@pytest.mark.parametrize("code", ["import wrappers.goal_dict", "from wrappers import GoalDict, make_goal_env"])
def test_goal_environments_need_no_pytorch(code: str) -> None:
    loaded = loaded_by(code)
    assert "gymnasium" in loaded and "torch" not in loaded
