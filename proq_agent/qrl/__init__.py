from proq_agent.qrl.policies import MultiInputPolicy
from proq_agent.qrl.qrl import QRL

__all__ = ["QRL", "MultiInputPolicy"]
