from proq_agent.gciql.gciql import GCIQL
from proq_agent.gciql.policies import MultiInputPolicy

__all__ = ["GCIQL", "MultiInputPolicy"]
