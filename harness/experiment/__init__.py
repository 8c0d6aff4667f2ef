"""Experiments: the model of experiment.yaml, the plan of trials, the runner."""
