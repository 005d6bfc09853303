"""When the plan is looked at again, and when it is changed: `[adapt] replan`."""
