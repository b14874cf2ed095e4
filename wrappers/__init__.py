from wrappers.goal_dict import GoalDict
from wrappers.make import make_goal_env

__all__ = ["GoalDict", "make_goal_env"]
