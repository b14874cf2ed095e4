from proq_agent.proq.policies import MultiInputPolicy, ProQPolicy
from proq_agent.proq.proq import ProQ

__all__ = ["MultiInputPolicy", "ProQ", "ProQPolicy"]
