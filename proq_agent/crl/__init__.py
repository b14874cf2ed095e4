from proq_agent.crl.crl import CRL
from proq_agent.crl.policies import MultiInputPolicy

__all__ = ["CRL", "MultiInputPolicy"]
