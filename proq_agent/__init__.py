"""Offline goal-conditioned RL with projective quasimetric planning."""

from proq_agent.common.dataset import GoalDataset
from proq_agent.proq import MultiInputPolicy, ProQ

__all__ = ["GoalDataset", "MultiInputPolicy", "ProQ"]
