from proq_agent.hiql.hiql import HIQL
from proq_agent.hiql.policies import MultiInputPolicy

__all__ = ["HIQL", "MultiInputPolicy"]
