from proq_agent.gcbc.gcbc import GCBC

__all__ = ["GCBC"]
