"""The page of an agent on the Hugging Face Hub: what it is, what it achieves, how to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proq_agent.common.errors import within
from zoo.registry import ALGOS

if TYPE_CHECKING:
    from huggingface_hub import ModelCard

WAYS = ("sampled", "deterministic")  # of acting, as config.yml has them


def make_card(repo_id: str, config: dict[str, Any], command: str | None, pictures: list[str]) -> ModelCard:
    """
    :param repo_id: ``owner/name``
    :param config: of the run, as :meth:`zoo.runs.folder.RunFolder.read_config` returns it
    :param command: that trained the agent
    :param pictures: names of pictures in the repository
    :raises ValueError: if the results are damaged
    """
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    env, algo = config["env"], config["algo"]
    with within("the run's config.yml is damaged", "train again, or take out its results", ValueError):
        tasks, rates = _results(config)
    evaluations = [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="reinforcement-learning",
            dataset_type=env,
            dataset_name=env,
            metric_type="success_rate",
            metric_name=f"success rate, {way} actions",
            metric_value=rate["all"],
        )
        for way, rate in rates.items()
    ]
    name = ALGOS[algo].rpartition(":")[2]
    data = ModelCardData(
        library_name="proq-agent",
        tags=["reinforcement-learning", "offline-rl", "goal-conditioned", "stable-baselines3", algo, env],
        model_name=f"{name} on {env}",
        eval_results=evaluations or None,
        pipeline_tag="reinforcement-learning",
    )
    lines = [f"# {name} on `{env}`", "", f"A goal-conditioned agent, trained offline with {name} of proq-agent."]
    if rates:
        lines += ["", f"Success over {config['results']['episodes']} episodes a task:", ""]
        lines += [f"| task | {' | '.join(WAYS)} |", "|---|---|---|"]
        lines += [f"| {task} | {' | '.join(f'{rates[way][task]:.1%}' for way in WAYS)} |" for task in tasks]
    for picture in pictures:
        lines += ["", f"![{picture.partition('.')[0]}]({picture})"]
    lines += ["", "## Use it", "", "```bash", f"python -m zoo.load_from_hub --repo-id {repo_id}"]
    lines += [f"python -m zoo.enjoy --algo {algo} --env {env}", "```"]
    lines += ["", "The file holds no pickles: to load it runs nobody's code."]
    if command:
        lines += ["", "## How it was trained", "", "```bash", command, "```"]
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines) + "\n")


def _results(config: dict[str, Any]) -> tuple[list[Any], dict[str, dict[Any, float]]]:
    """Tasks, and the success rates of each way of acting; nothing if the run was not evaluated."""
    results = config.get("results")
    if results is None:
        return [], {}
    rates = {way: {task: float(rate) for task, rate in results[way].items()} for way in WAYS}
    return list(rates[WAYS[0]]), rates
