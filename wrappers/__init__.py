from wrappers.goal_dict import GoalDict
from wrappers.keypoint_goal import KeypointGoal
from wrappers.make import make_goal_env

__all__ = ["GoalDict", "KeypointGoal", "make_goal_env"]
