"""Offline goal-conditioned RL with projective quasimetric planning, and six algorithms to compare it with."""

from proq_agent.common.dataset import GoalDataset
from proq_agent.crl import CRL
from proq_agent.gcbc import GCBC
from proq_agent.gciql import GCIQL
from proq_agent.gcivl import GCIVL
from proq_agent.hiql import HIQL
from proq_agent.proq import MultiInputPolicy, ProQ
from proq_agent.qrl import QRL

__all__ = ["CRL", "GCBC", "GCIQL", "GCIVL", "HIQL", "QRL", "GoalDataset", "MultiInputPolicy", "ProQ"]
