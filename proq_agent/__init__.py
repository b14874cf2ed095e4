"""Offline goal-conditioned RL with projective quasimetric planning."""

from proq_agent.dataset import GoalDataset
from proq_agent.policies import MultiInputPolicy
from proq_agent.proq import ProQ

__all__ = ["GoalDataset", "MultiInputPolicy", "ProQ"]
