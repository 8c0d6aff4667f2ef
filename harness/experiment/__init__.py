# SPDX-License-Identifier: MIT
"""Experiments: the model of experiment.yaml, the plan of trials, the runner."""
