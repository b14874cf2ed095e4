from proq_agent.gcivl.gcivl import GCIVL
from proq_agent.gcivl.policies import MultiInputPolicy

__all__ = ["GCIVL", "MultiInputPolicy"]
